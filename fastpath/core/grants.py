"""May this principal publish or read this subject: an answer and a reason, the same for every port (FEATURES E1).

A check answers the empty text for yes and the reason for no; NOT_READY is the one reason that is no denial.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .errors import Close, InvalidSubject, Refused
from .rules import SUBSCRIBE, Rule, RuleSet
from .subject import check_pattern
from .tokens import Claims, verify

NOT_READY = "the rights have not arrived from Django yet; retry"
_CACHE_MAX = 4096
"""Answers that one principal remembers; beyond it they are worked out anew."""


class User(Struct, frozen=True):
    """A user as Django sends it (protocol.md 8.3): from ``generation`` on it replaces what older tokens say."""

    uid: str
    user: str
    active: bool
    superuser: bool
    groups: list[str]
    generation: int


class Session(Struct, frozen=True):
    """A revoked session (protocol.md 8.3)."""

    sid: str
    generation: int


class Principal:
    """Who a connection acts for; ``claims`` is None for anonymous."""

    __slots__ = ("answers", "claims", "holders", "publishable", "superuser", "user", "version")

    def __init__(self, claims: Claims | None, superuser: bool, holders: tuple[str, ...], user: str = "") -> None:
        self.claims = claims
        self.user = user or (claims.user if claims else "")
        self.superuser = superuser
        self.holders = holders
        self.version = 0
        self.answers: dict[tuple[str, str], str] | None = None
        self.publishable: set[str] | None = None

    @property
    def expires(self) -> int | None:
        """When the token ends, in ms."""
        return self.claims.expires if self.claims else None


class Grants:
    """Mode ``none``: everybody may do everything; the base of the other modes."""

    mode = "none"
    ready = True
    generation: int | None = None
    _everybody = Principal(None, True, ())

    def principal(self, token: str, now: int) -> Principal:
        """Who the bearer of the token is (empty: anonymous); raises Refused."""
        del token, now
        return self._everybody

    def current(self, principal: Principal) -> Principal:
        """The principal under the present rights; raises Refused when it has none any more."""
        return principal

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Empty when the principal may, else the reason why not."""
        del principal, action, subject, now
        return ""

    def publishable(self, principal: Principal) -> set[str] | None:
        """The subjects that the principal is known to be allowed to publish to, by checks before; None: it is to all.

        The caller adds what a check allowed. A change of rights empties it.
        """
        del principal
        return None


class JwtGrants(Grants):
    """Mode ``jwt``: the token of an outside issuer carries the patterns (protocol.md 8.4)."""

    mode = "jwt"

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def principal(self, token: str, now: int) -> Principal:
        """Raises Refused when the token is not valid; anonymous has no rights at all."""
        return Principal(verify(token, self._secret, now, audience=None) if token else None, False, ())

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Allowed when a pattern of the action or of ``all`` covers the subject."""
        if principal.claims is None:
            return "a token is needed"
        if principal.answers is None:
            principal.answers = {}
        answer = principal.answers.get((action, subject))
        if answer is None:
            permissions = principal.claims.permissions
            own = permissions["sub" if action == SUBSCRIBE else "pub"] + permissions["all"]
            rules = RuleSet()
            for number, pattern in enumerate(own):
                if _is_pattern(pattern):
                    rules.put(Rule(number, "token", pattern, action, True))
            match = rules.decide(("token",), principal.user, subject, action, now)
            answer = "" if match else "no permission in the token covers it"
            if len(principal.answers) >= _CACHE_MAX:
                principal.answers.clear()
            principal.answers[action, subject] = answer
        return answer

    def publishable(self, principal: Principal) -> set[str] | None:
        """What the token allows stays so."""
        return _bounded(principal)


class RuleGrants(Grants):
    """Mode ``rules``: Django's rules decide; until they have arrived nothing is denied and nothing allowed."""

    mode = "rules"

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._anonymous = Principal(None, False, ("anonymous", "everyone"))
        self._rules = RuleSet()
        self._users: dict[str, User] = {}
        self._sessions: set[str] = set()
        self._holders: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._version = 0
        self._checked_at = 0
        self._next_change: int | None = None
        self.ready = False

    def principal(self, token: str, now: int) -> Principal:
        """Raises Refused for a bad, expired or revoked token, a signed-out session or a deactivated user."""
        if not token:
            return self._anonymous
        return self.refresh(verify(token, self._secret, now))

    def refresh(self, claims: Claims) -> Principal:
        """The principal of these claims under the present users and sessions; raises Refused."""
        if claims.session and claims.session in self._sessions:
            raise Refused(Close.REVOKED, "signed out")
        groups: Iterable[str] = claims.groups
        superuser, name = claims.superuser, claims.user
        user = self._users.get(claims.uid)
        if user is not None and user.generation > claims.generation:
            groups, superuser, name = user.groups, user.superuser, user.user
            if not user.active:
                raise Refused(Close.REVOKED, "the user is not active")
        principal = Principal(claims, superuser, (f"user:{claims.uid}", *self._shared_holders(tuple(groups))), name)
        principal.version = self._version
        return principal

    def _shared_holders(self, groups: tuple[str, ...]) -> tuple[str, ...]:
        """What all users of these groups hold, as the same texts for all of them."""
        holders = self._holders.get(groups)
        if holders is None:
            if len(self._holders) >= _CACHE_MAX:
                self._holders.clear()
            holders = self._holders[groups] = (*(f"group:{group}" for group in groups), "everyone")
        return holders

    def current(self, principal: Principal) -> Principal:
        """Made anew when a rule, user or session has changed since it was made; raises Refused."""
        if principal.claims is None or principal.version == self._version:
            return principal
        return self.refresh(principal.claims)

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Superusers may all; else the most specific rule decides, and without one it is denied."""
        if not self.ready:
            return NOT_READY
        if principal.superuser:
            return ""
        if principal.version != self._version:
            principal.publishable = None
            principal.version = self._version
        match = self._rules.decide(principal.holders, principal.user, subject, action, now)
        if match is None:
            return "no rule allows it"
        return f"rule {match.rule_id} denies it" if match.denies else ""

    def publishable(self, principal: Principal) -> set[str] | None:
        """Nothing is known before the rights have arrived, nor after a change."""
        known = principal.publishable
        if known and principal.version == self._version and len(known) < _CACHE_MAX and self.ready:
            return known
        if principal.superuser and self.ready:
            return None
        if principal.version != self._version or not self.ready:
            principal.publishable = None
        return _bounded(principal)

    def replace(self, rules: RuleSet, users: dict[str, User], sessions: set[str], generation: int, now: int) -> None:
        """Swap in a full set that was built aside."""
        self._rules, self._users, self._sessions = rules, users, sessions
        self.generation = generation
        self.ready = True
        self._changed(now)

    def apply(
        self,
        rules: list[Rule],
        removed: list[int],
        users: list[User],
        sessions: list[Session],
        generation: int,
        now: int,
    ) -> tuple[set[str], set[str], set[str]]:
        """Apply a difference; the holders, uids and sessions whose rights may have changed."""
        holders: set[str] = set()
        for rule_id in removed:
            holders |= self._rules.remove(rule_id)
        for rule in rules:
            holders |= self._rules.put(rule)
        for user in users:
            self._users[user.uid] = user
        self._sessions.update(session.sid for session in sessions)
        self.generation = generation
        self._changed(now)
        return holders, {user.uid for user in users}, {session.sid for session in sessions}

    def contents(self) -> tuple[list[Rule], list[User], list[str]]:
        """All rules, users and revoked sessions in force."""
        return list(self._rules.rules.values()), list(self._users.values()), sorted(self._sessions)

    def due(self, now: int) -> set[str]:
        """The holders of rules whose validity began or ended since the last call."""
        if self._next_change is None or now < self._next_change:
            return set()
        holders = self._rules.changed_between(self._checked_at, now)
        self._changed(now)
        return holders

    def _changed(self, now: int) -> None:
        self._version += 1
        self._checked_at = now
        self._next_change = self._rules.next_change(now)


def _is_pattern(text: str) -> bool:
    """Whether an outside issuer's pattern is one; what is none allows nothing."""
    try:
        check_pattern(text)
    except InvalidSubject:
        return False
    return True


def _bounded(principal: Principal) -> set[str]:
    """The principal's known subjects, emptied when they are too many."""
    known = principal.publishable
    if known is None or len(known) >= _CACHE_MAX:
        known = principal.publishable = set()
    return known
