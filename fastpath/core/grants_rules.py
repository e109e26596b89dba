"""Mode ``rules``: Django's rules, users and revoked sessions decide (FEATURES E2, protocol.md 8.2, 8.3)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .errors import Close, Refused
from .grants import ANSWERS_MAX, NOT_READY, Grants, Principal, bounded
from .rules import Rule, RuleSet
from .tokens import Claims, verify


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
            if len(self._holders) >= ANSWERS_MAX:
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
        if known and principal.version == self._version and len(known) < ANSWERS_MAX and self.ready:
            return known
        if principal.superuser and self.ready:
            return None
        if principal.version != self._version or not self.ready:
            principal.publishable = None
        return bounded(principal)

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
