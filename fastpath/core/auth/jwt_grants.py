"""What a token permits itself: all there is in mode ``jwt``, beside the rules in mode ``rules`` (protocol.md 8.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from weakref import WeakValueDictionary

from ..protocol.errors import Close, InvalidSubject, Refused
from ..protocol.subject import check_pattern, owner_of, presence_of
from .grants import ANSWERS_MAX, DENIED, Grants, Principal, Reach, Why, bounded, reach_of
from .keys import Keys
from .rules import BOTH, OWN, PUBLISH, SUBSCRIBE, Rule, RuleSet
from .tokens import AUDIENCE, KEY_UNKNOWN, LEEWAY_MS, ClaimMap, Claims, verify

_ACTIONS = {"sub": SUBSCRIBE, "pub": PUBLISH, "all": BOTH}

_HOLDER = "token"

_NO_PERMISSION = "no permission in the token covers it"


def permission_set(permissions: Mapping[str, Iterable[str]]) -> RuleSet:
    """Return the patterns of a token's claim ``permissions``, ready to be asked by ``permission``."""
    rules = RuleSet()
    for kind, action in _ACTIONS.items():
        for pattern in filter(_is_pattern, permissions.get(kind, ())):
            rules.put(Rule(len(rules.rules), _HOLDER, pattern, action, True))
    return rules


SETS_KEPT = 100
"""Number of the newest sets that are kept though nobody has them now: who asks over HTTP has one for a request."""


class PermissionSets:
    """The sets of permissions of tokens: those that say the same are one set, which is kept while somebody has it."""

    def __init__(self) -> None:
        self._newest: deque[RuleSet] = deque(maxlen=SETS_KEPT)
        self._sets: WeakValueDictionary[tuple[tuple[str, ...], ...], RuleSet] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._sets)

    def of(self, claims: Claims) -> RuleSet:
        """Return the set of this token."""
        given = tuple(claims.permissions.get(kind, ()) for kind in _ACTIONS)
        rules = self._sets.get(given)
        if rules is None:
            rules = self._sets[given] = permission_set(claims.permissions)
            self._newest.append(rules)
        return rules


def permission(rules: RuleSet, user: str, uid: str, action: str, subject: str, now: int) -> Rule | None:
    """Return the permission of this user's token that covers the subject; ``OWN`` where the subject is the user's
    own."""
    about = presence_of(subject) if action == SUBSCRIBE else ""
    match = None if about and owner_of(about) else rules.decide((_HOLDER,), user, subject, action, now, uid)
    if about and not match:  # who may read a subject may see who is there (protocol.md 3.9)
        match = rules.decide((_HOLDER,), user, about, action, now, uid)
    return match


class JwtGrants(Grants):
    """Mode ``jwt``: ``audience`` and ``issuer`` are what tokens have to name, where they are not empty.

    Without an audience of its own the server takes tokens that name none, or ``fastpath``. ``claim_map`` says which
    claims are the user and the groups.
    """

    mode = "jwt"

    def __init__(
        self,
        keys: Keys | str,
        audience: str = "",
        issuer: str = "",
        leeway_ms: int = LEEWAY_MS,
        claim_map: ClaimMap | None = None,
    ) -> None:
        self._claim_map = claim_map or ClaimMap()
        self._leeway_ms = leeway_ms
        self.keys: Keys = keys if isinstance(keys, Keys) else Keys(keys)
        self._audience = audience
        self._issuer = issuer
        self._anonymous = Principal(None, False, ())
        self._sets = PermissionSets()

    def principal(self, token: str, now: int) -> Principal:
        """Read a token; raise Refused when it is not valid. Anonymous has no rights at all."""
        if not token:
            return self._anonymous
        audience = self._audience or AUDIENCE
        optional, leeway_ms = not self._audience, self._leeway_ms
        claims = verify(
            *(token, self.keys, now, audience, self._issuer),
            audience_optional=optional,
            leeway_ms=leeway_ms,
            claim_map=self._claim_map,
        )
        return Principal(claims, False, tuple(f"group:{group}" for group in claims.groups))

    def current(self, principal: Principal) -> Principal:
        """Return the principal; raise Refused if its key does not count any more, as what that one signed gives no
        rights."""
        if principal.claims is not None and not self.keys.counts(principal.claims.key):
            raise Refused(Close.TOKEN_EXPIRED, KEY_UNKNOWN)
        return principal

    def refreshed(self, principal: Principal) -> Principal:
        """Return the principal as it is, if its key still counts: raises Refused."""
        return self.current(principal)

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Allow what a pattern of the action or of ``all`` covers."""
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
        """Return the permission that covers the subject."""
        if principal.claims is None:
            return Why(False, "a token is needed")
        match = self._match(principal, SUBSCRIBE, subject, now)
        if match is OWN:
            return Why(True, "it is the user's own")
        return Why(True, f"the token permits {match.pattern}") if match else Why(False, _NO_PERMISSION)

    def reach(self, principal: Principal, pattern: str, now: int) -> Reach:
        """Return how much may be read by the token's permissions."""
        if principal.claims is None:
            return Reach(DENIED, "a token is needed", 1)
        subjects = self._rules(principal).samples((_HOLDER,), principal.user, pattern, principal.uid)
        return reach_of(subjects, lambda subject: JwtGrants.explain(self, principal, subject, now))

    def _match(self, principal: Principal, action: str, subject: str, now: int) -> Rule | None:
        """Return the permission of the token that covers the subject."""
        return permission(self._rules(principal), principal.user, principal.uid, action, subject, now)

    def _rules(self, principal: Principal) -> RuleSet:
        """Return the token's permissions; a token that was remembered has none yet."""
        if principal.permitted is None:
            assert principal.claims is not None
            principal.permitted = self._sets.of(principal.claims)
        return principal.permitted

    def rights_key(self, principal: Principal, named: bool = False) -> Hashable:
        """Return the permissions: those who have the same may read the same."""
        if principal.claims is None:
            return None
        rules = self._rules(principal)
        return rules, (principal.user, principal.uid) if named or rules.names else ""

    def publishable(self, principal: Principal) -> set[str] | None:
        """Return the subjects that checks have allowed: what the token allows stays so."""
        return bounded(principal)


def _is_pattern(text: str) -> bool:
    """Return whether an outside issuer's pattern is one; what is none allows nothing."""
    try:
        check_pattern(text)
    except InvalidSubject:
        return False
    return True
