"""Mode ``jwt``: the token of an outside issuer carries the patterns (protocol.md 8.4)."""

from __future__ import annotations

from collections.abc import Hashable

from ..protocol.errors import Close, InvalidSubject, Refused
from ..protocol.subject import check_pattern, owner_of, presence_of
from .grants import ANSWERS_MAX, DENIED, Grants, Principal, Reach, Why, bounded, reach_of
from .keys import Keys
from .rules import BOTH, OWN, PUBLISH, SUBSCRIBE, Rule, RuleSet
from .tokens import AUDIENCE, KEY_UNKNOWN, LEEWAY_MS, Claims, verify

_ACTIONS = {"sub": SUBSCRIBE, "pub": PUBLISH, "all": BOTH}

_NO_PERMISSION = "no permission in the token covers it"

SETS_MAX = 256
"""Sets of permissions that are kept ready to be asked; tokens of one kind of user have the same."""


class JwtGrants(Grants):
    """Mode ``jwt``: ``audience`` and ``issuer`` are what tokens have to name, where they are not empty.

    Without an audience of its own the server takes tokens that name none, or ``fastpath``.
    """

    mode = "jwt"

    def __init__(self, keys: Keys | str, audience: str = "", issuer: str = "", leeway_ms: int = LEEWAY_MS) -> None:
        self._leeway_ms = leeway_ms
        self.keys: Keys = keys if isinstance(keys, Keys) else Keys(keys)
        self._audience = audience
        self._issuer = issuer
        self._anonymous = Principal(None, False, ())
        self._sets: dict[tuple[tuple[str, ...], ...], RuleSet] = {}

    def principal(self, token: str, now: int) -> Principal:
        """Raises Refused when the token is not valid; anonymous has no rights at all."""
        if not token:
            return self._anonymous
        audience = self._audience or AUDIENCE
        optional, leeway_ms = not self._audience, self._leeway_ms
        claims = verify(token, self.keys, now, audience, self._issuer, audience_optional=optional, leeway_ms=leeway_ms)
        return Principal(claims, False, ())

    def current(self, principal: Principal) -> Principal:
        """What a key signed that does not count any more gives no rights: raises Refused."""
        if principal.claims is not None and not self.keys.counts(principal.claims.key):
            raise Refused(Close.TOKEN_EXPIRED, KEY_UNKNOWN)
        return principal

    def refreshed(self, principal: Principal) -> Principal:
        """Return the principal as it is, if its key still counts: raises Refused."""
        return self.current(principal)

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Allowed when a pattern of the action or of ``all`` covers the subject."""
        if principal.claims is None:
            return "a token is needed"
        if principal.answers is None:
            principal.answers = {}
        answer = principal.answers.get((action, subject))
        if answer is None:
            answer = "" if self._match(principal, action, subject, now) else _NO_PERMISSION
            if len(principal.answers) >= ANSWERS_MAX:
                principal.answers.clear()
            principal.answers[action, subject] = answer
        return answer

    def explain(self, principal: Principal, subject: str, now: int) -> Why:
        """The permission that covers it."""
        if principal.claims is None:
            return Why(False, "a token is needed")
        match = self._match(principal, SUBSCRIBE, subject, now)
        if match is OWN:
            return Why(True, "it is the user's own")
        return Why(True, f"the token permits {match.pattern}") if match else Why(False, _NO_PERMISSION)

    def reach(self, principal: Principal, pattern: str, now: int) -> Reach:
        """By the token's permissions."""
        if principal.claims is None:
            return Reach(DENIED, "a token is needed", 1)
        subjects = self._rules(principal.claims).samples(("token",), principal.user, pattern, principal.uid)
        return reach_of(subjects, lambda subject: JwtGrants.explain(self, principal, subject, now))

    def _match(self, principal: Principal, action: str, subject: str, now: int) -> Rule | None:
        """The permission of the token that covers the subject."""
        assert principal.claims is not None
        rules = self._rules(principal.claims)
        about = presence_of(subject) if action == SUBSCRIBE else ""
        user, uid = principal.user, principal.uid
        match = None if about and owner_of(about) else rules.decide(("token",), user, subject, action, now, uid)
        if about and not match:  # who may read a subject may see who is there (protocol.md 3.9)
            match = rules.decide(("token",), user, about, action, now, uid)
        return match

    def _rules(self, claims: Claims) -> RuleSet:
        """The token's permissions, ready to be asked."""
        given = tuple(claims.permissions[kind] for kind in _ACTIONS)
        rules = self._sets.get(given)
        if rules is None:
            rules = RuleSet()
            for action, patterns in zip(_ACTIONS.values(), given, strict=True):
                for pattern in filter(_is_pattern, patterns):
                    rules.put(Rule(len(rules.rules), "token", pattern, action, True))
            if len(self._sets) >= SETS_MAX:
                self._sets.clear()
            self._sets[given] = rules
        return rules

    def rights_key(self, principal: Principal, named: bool = False) -> Hashable:
        """Return the permissions: those who have the same may read the same."""
        if principal.claims is None:
            return None
        rules = self._rules(principal.claims)
        return rules, (principal.user, principal.uid) if named or rules.names else ""

    def publishable(self, principal: Principal) -> set[str] | None:
        """What the token allows stays so."""
        return bounded(principal)


def _is_pattern(text: str) -> bool:
    """Whether an outside issuer's pattern is one; what is none allows nothing."""
    try:
        check_pattern(text)
    except InvalidSubject:
        return False
    return True
