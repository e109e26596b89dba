"""Mode ``rules``: Django's rules, users and revoked sessions decide (features.md E2, protocol.md 8.2, 8.3).

A token may carry permissions as well, which the project's own code has given. They are asked where no rule covers what
is asked: a rule that denies always wins, and one that allows needs no permission.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from msgspec import Struct

from ..protocol.errors import Close, Refused
from ..protocol.subject import owner_of, presence_of
from .grants import ANSWERS_MAX, Grants, Principal, Reach, Why, bounded, reach_of
from .jwt_grants import PermissionSets, permission
from .keys import Keys
from .reasons import NOT_READY
from .rules import OWN, SUBSCRIBE, Rule, RuleSet
from .tokens import KEY_UNKNOWN, LEEWAY_MS, PASSWORD_CHANGED, Claims, verify

SESSIONS_KEPT = 10_000
"""Revoked sessions and tokens beyond which those are looked for that need not be remembered any more."""


_NO_RULE, _NO_RIGHT = "no rule allows it", "neither a rule nor the token allows it"

OTHERS = ""
"""The uid that stands for every user of whom nothing else is told: no user of Django's has it."""


class RuleUser(Struct, frozen=True):
    """A user as Django sends it (protocol.md 8.3): from ``generation`` on it replaces what older tokens say.

    Tokens older than ``since`` are no tokens of this user any more: the password was changed then.
    """

    uid: str
    user: str
    active: bool
    superuser: bool
    groups: list[str]
    generation: int
    since: int = 0


class Session(Struct, frozen=True):
    """A revoked session, or as ``jti:<id>`` a single revoked token (protocol.md 8.3).

    After ``until`` (ms, 0: never) no token of it is alive, and it need not be remembered.
    """

    sid: str
    generation: int
    until: int = 0


class RuleGrants(Grants):
    """Mode ``rules``: Django's rules decide; until they have arrived nothing is denied and nothing allowed."""

    mode = "rules"

    def __init__(self, keys: Keys | str, leeway_ms: int = LEEWAY_MS) -> None:
        self._leeway_ms = leeway_ms
        self.keys: Keys = keys if isinstance(keys, Keys) else Keys(keys)
        self._anonymous = Principal(None, False, ("anonymous", "everyone"))
        self._rules = RuleSet()
        self._permitted = PermissionSets()
        self._users: dict[str, RuleUser] = {}
        self._sessions: dict[str, int] = {}
        self._sessions_kept = SESSIONS_KEPT
        self._holders: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._version = 0
        self.ready = False

    def principal(self, token: str, now: int) -> Principal:
        """Read a token; raise Refused for one that is bad, expired or revoked, a signed-out session or a deactivated
        user."""
        if not token:
            return self._anonymous
        return self.refresh(verify(token, self.keys, now, leeway_ms=self._leeway_ms))

    def refresh(self, claims: Claims, permitted: RuleSet | None = None) -> Principal:
        """Return the principal of these claims under the present users and sessions; raise Refused.

        ``permitted`` is what the claims permit, if that was found out before. A changed password comes before the
        session: Django gives the session in which the password was changed another key, so that the old one ends. Who
        still is signed in is to come back with a new token.
        """
        groups: Iterable[str] = claims.groups
        superuser, name = claims.superuser, claims.user
        user = self._users.get(claims.uid) or self._users.get(OTHERS)
        if user is not None and user.generation > claims.generation:
            groups, superuser, name = user.groups, user.superuser, user.user
            if not user.active:
                raise Refused(Close.REVOKED, "the user is not active")
        if claims.token_id and claims.token_id in self._sessions:
            raise Refused(Close.REVOKED, "the token was revoked")
        if user is not None and user.since > claims.generation:
            raise Refused(Close.TOKEN_EXPIRED, PASSWORD_CHANGED)
        if claims.session and claims.session in self._sessions:
            raise Refused(Close.REVOKED, "signed out")
        if not self.keys.counts(claims.key):
            raise Refused(Close.TOKEN_EXPIRED, KEY_UNKNOWN)
        if permitted is None and any(claims.permissions.values()):
            permitted = self._permitted.of(claims)
        holders = f"user:{claims.uid}", *self._shared_holders(tuple(groups))
        principal = Principal(claims, superuser, holders, name, permitted=permitted)
        principal.version = self._version
        return principal

    def _shared_holders(self, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Return what all users of these groups hold, as the same texts for all of them."""
        holders = self._holders.get(groups)
        if holders is None:
            if len(self._holders) >= ANSWERS_MAX:
                self._holders.clear()
            holders = self._holders[groups] = (*(f"group:{group}" for group in groups), "everyone")
        return holders

    def current(self, principal: Principal) -> Principal:
        """Return the principal, made anew when a rule, user or session has changed since it was made; raise Refused."""
        if principal.claims is None or principal.version == self._version:
            return principal
        return self.refresh(principal.claims, principal.permitted)

    def refreshed(self, principal: Principal) -> Principal:
        """Return the principal made anew in any case; raise Refused."""
        return principal if principal.claims is None else self.refresh(principal.claims, principal.permitted)

    def keys_changed(self) -> None:
        """Look at principals again where they are used, as a key does not count any more."""
        self._version += 1

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Let superusers do all; else the most specific rule decides, without one the token; else the answer is no."""
        if not self.ready:
            return NOT_READY
        if principal.superuser:
            return ""
        rule = self._rule(principal, action, subject, now)
        if rule is not None:
            return "" if rule.allow else f"rule {rule.id} denies it"
        if principal.permitted is None:
            return _NO_RULE
        match = permission(principal.permitted, principal.user, principal.uid, action, subject, now)
        return "" if match else _NO_RIGHT

    def _rule(self, principal: Principal, action: str, subject: str, now: int) -> Rule | None:
        """Return the rule that decides; of who is there, one about the subject where none allows that (protocol.md
        3.9)."""
        about = presence_of(subject) if action == SUBSCRIBE else ""
        if about and owner_of(about):
            return self._rule(principal, action, about, now)
        rule = self._rules.decide(principal.holders, principal.user, subject, action, now, principal.uid)
        if about and (rule is None or not rule.allow):  # who may read a subject may see who is there
            return self._rule(principal, action, about, now)
        return rule

    def explain(self, principal: Principal, subject: str, now: int) -> Why:
        """Return the rule that decides, or the permission of the token."""
        if not self.ready:
            return Why(False, NOT_READY)
        if principal.superuser:
            return Why(True, "a superuser may read everything")
        rule = self._rule(principal, SUBSCRIBE, subject, now)
        if rule is None and principal.permitted is not None:
            match = permission(principal.permitted, principal.user, principal.uid, SUBSCRIBE, subject, now)
            return Why(True, f"the token permits {match.pattern}") if match else Why(False, _NO_RIGHT)
        if rule is None:
            return Why(False, _NO_RULE)
        if rule is OWN:
            return Why(True, "it is the user's own")
        verb = "allows" if rule.allow else "denies"
        return Why(rule.allow, f"rule {rule.id} {verb} {rule.pattern} to {rule.who}", rule.id)

    def reach(self, principal: Principal, pattern: str, now: int) -> Reach:
        """Return how much may be read by the rules that may count for the pattern, and by the token's permissions."""
        if not self.ready or principal.superuser:
            return Reach()
        user, uid = principal.user, principal.uid
        subjects = self._rules.samples(principal.holders, user, pattern, uid, principal.permitted)
        return reach_of(subjects, lambda subject: RuleGrants.explain(self, principal, subject, now))

    def rights_key(self, principal: Principal, named: bool = False) -> Hashable:
        """Return what is the same for all superusers, and for all for whom the same rules and permissions count."""
        if principal.superuser:
            return True
        name = (principal.user, principal.uid) if named or self._is_named(principal) else ""
        return self._counting(principal), name, principal.permitted

    def rights_proxy(self, principal: Principal, named: bool = False) -> Principal:
        """Return a principal with the same rights: a rule that comes to be about one user alone is not about the
        proxy."""
        known = named or self._is_named(principal)  # of many users there is no name
        name, uid = (principal.user, principal.uid) if known else ("", "")
        return Principal(None, principal.superuser, self._counting(principal), name, uid, principal.permitted)

    def _is_named(self, principal: Principal) -> bool:
        """Return whether what the principal may depends on its name or id."""
        return bool(self._rules.names or (principal.permitted is not None and principal.permitted.names))

    def _counting(self, principal: Principal) -> tuple[str, ...]:
        """Return the principal's holders that have rules."""
        holders = self._rules.holders
        return tuple([holder for holder in principal.holders if holder in holders])

    @property
    def version(self) -> int:
        """The version of rules, users and sessions together, times of validity included."""
        return self._version

    def publishable(self, principal: Principal) -> set[str] | None:
        """Return the known subjects: none before the rights have arrived, nor after a change.

        That the set is new says nothing about the principal, which ``current`` makes anew.
        """
        known = principal.publishable
        if known and principal.known_at == self._version and len(known) < ANSWERS_MAX and self.ready:
            return known
        if principal.superuser and self.ready:
            return None
        if principal.known_at != self._version or not self.ready:
            principal.publishable = None
            principal.known_at = self._version
        return bounded(principal)

    def replace(
        self, rules: RuleSet, users: dict[str, RuleUser], sessions: dict[str, int], generation: int, now: int
    ) -> None:
        """Swap in a full set that was built aside."""
        self._rules, self._users, self._sessions = rules, users, sessions
        self.generation = generation
        self.ready = True
        self._version += 1
        rules.begin(now)

    def apply(
        self,
        rules: list[Rule],
        removed: list[int],
        users: list[RuleUser],
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
        self._sessions.update((session.sid, session.until) for session in sessions)
        if len(self._sessions) > self._sessions_kept:
            self._sessions = {sid: until for sid, until in self._sessions.items() if not until or until > now}
            self._sessions_kept = max(SESSIONS_KEPT, 2 * len(self._sessions))
        self.generation = generation
        self._version += 1
        return holders, {user.uid for user in users}, {session.sid for session in sessions}

    def contents(self) -> tuple[list[Rule], list[RuleUser], list[Session]]:
        """Return all rules, users and revoked sessions in force."""
        sessions = [Session(sid, 0, until) for sid, until in self._sessions.items()]
        return list(self._rules.rules.values()), list(self._users.values()), sessions

    def due(self, now: int) -> set[str]:
        """Return the holders of rules whose validity began or ended since the last call."""
        holders = self._rules.due(now)
        if holders:
            self._version += 1
        return holders
