"""Mode ``custom``, in which a hook in Django decides alone, and hooks that may deny more than another mode does."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, TypeVar, cast

from ..protocol.errors import Close, Refused
from ..protocol.subject import USERS, owner_of, user_segment
from .grants import DENIED, Grants, Principal, Reach, Why
from .reasons import ASKED
from .rules import PUBLISH, SUBSCRIBE
from .tokens import TOKEN_CHARS_MAX

if TYPE_CHECKING:
    from .hook_decisions import HookDecisions

G = TypeVar("G", bound=Grants)


class CustomGrants(Grants):
    """Mode ``custom``: a token is any text, and the hook says who its bearer is and what that one may."""

    mode = "custom"

    def __init__(self, events: frozenset[str]) -> None:
        self._events = events

    def principal(self, token: str, now: int) -> Principal:
        """Return somebody whose name the hook is still to tell; raise Refused for a token that is too long for one."""
        del now
        if len(token) > TOKEN_CHARS_MAX:
            raise Refused(Close.BAD_TOKEN, f"the token has over {TOKEN_CHARS_MAX} characters")
        return Principal(None, False, ())

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Deny, unless the hook is asked about such things; one's own subjects are one's own without asking it."""
        del now
        if self.settles(action, subject):
            own = bool(principal.user) and owner_of(subject) == user_segment(principal.user)
            return "" if own else "it is another user's own"
        return "" if action in self._events else f"the hook is not asked about {action}"

    def settles(self, action: str, subject: str) -> bool:
        """Return True for the reading of a user's own subject, which is no question to the hook."""
        return action == SUBSCRIBE and bool(owner_of(subject))

    def explain(self, principal: Principal, subject: str, now: int) -> Why:
        """Return what is known without asking."""
        reason = CustomGrants.check(self, principal, SUBSCRIBE, subject, now)
        if self.settles(SUBSCRIBE, subject):
            return Why(not reason, reason or "it is the user's own")
        return Why(not reason, reason or "mode custom leaves it to the hook")

    def reach(self, principal: Principal, pattern: str, now: int) -> Reach:
        """Return no reach where the hook is not asked who reads; else it is the hook's to say, of each subject."""
        del principal, now
        if SUBSCRIBE in self._events or pattern.startswith(f"/{USERS}/"):
            return Reach()
        return Reach(DENIED, f"the hook is not asked about {SUBSCRIBE}", 1)


class Hooked(Grants):
    """The grants of a mode with a hook, which is asked after they have said yes."""

    asking: HookDecisions

    def principal(self, token: str, now: int) -> Principal:
        """Return a principal that nobody shares, because the hook answers for a connection; raises Refused."""
        principal = super().principal(token, now)
        if principal.claims is None:
            return Principal(None, principal.superuser, principal.holders, principal.user, principal.uid)
        return principal

    def current(self, principal: Principal) -> Principal:
        """Return the principal with what the hook has answered."""
        return _carry(principal, super().current(principal))

    def refreshed(self, principal: Principal) -> Principal:
        """Return the principal made anew, with what the hook has answered."""
        return _carry(principal, super().refreshed(principal))

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Return the mode's answer, then the hook's; ASKED while that is not known."""
        reason = super().check(principal, action, subject, now)
        if reason or action not in self.asking.events or self.settles(action, subject):
            return reason
        return ASKED if principal.asked is None else principal.asked.check(action, subject, now)

    def holds(self, principal: Principal, subject: str, now: int) -> str:
        """Return why a running subscription may not go on; it does while the hook is asked again."""
        reason = super().check(principal, SUBSCRIBE, subject, now)
        if reason or SUBSCRIBE not in self.asking.events or principal.asked is None:
            return reason
        if self.settles(SUBSCRIBE, subject):
            return reason
        return principal.asked.holds(subject, now)

    def offers(self, principal: Principal, subject: str, now: int) -> str:
        """Return the mode's answer, then what the hook has said last: it is not asked again about what counted once."""
        reason = super().check(principal, PUBLISH, subject, now)
        if reason or PUBLISH not in self.asking.events:
            return reason
        return ASKED if principal.asked is None else principal.asked.offers(subject, now)

    def explain(self, principal: Principal, subject: str, now: int) -> Why:
        """Return the mode's reason, and what the hook has answered last."""
        why = super().explain(principal, subject, now)
        if not why.allowed or SUBSCRIBE not in self.asking.events or principal.asked is None:
            return why
        if self.settles(SUBSCRIBE, subject):
            return why
        known = principal.asked.known.get((SUBSCRIBE, subject))
        if known is None:
            return Why(False, ASKED)
        return why._replace(allowed=not known[0], reason=known[0] or f"{why.reason}; the hook has allowed it")

    def rights_key(self, principal: Principal, named: bool = False) -> Hashable:
        """Return the principal itself, as the hook may answer otherwise for each connection."""
        del named
        return principal

    def rights_proxy(self, principal: Principal, named: bool = False) -> Principal:
        """Return the principal itself, as nobody speaks for another."""
        del named
        return principal

    def publishable(self, principal: Principal) -> set[str] | None:
        """Return an empty set where the hook decides about publishing: its answer may end at any time."""
        return set() if PUBLISH in self.asking.events else super().publishable(principal)


def hooked(kind: type[G], asking: HookDecisions | None) -> type[G]:
    """Return the grants of a mode, with a hook that may deny more if there is one to be asked."""
    if asking is None:
        return kind
    return cast(type[G], type(f"Hooked{kind.__name__}", (Hooked, kind), {"asking": asking}))


def _carry(before: Principal, after: Principal) -> Principal:
    after.asked = before.asked
    return after
