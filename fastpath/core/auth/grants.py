"""May this principal publish or read this subject: an answer and a reason, the same for every port (features.md E1).

A check answers the empty text for yes and the reason for no; those in PENDING are no denial.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from .keys import Keys
from .reasons import PENDING
from .rules import PUBLISH, SUBSCRIBE, RuleSet
from .tokens import Claims

if TYPE_CHECKING:
    from .hook_decisions import HookState

DENIED, PARTIAL = "denied", "partial"
"""Reaches that are nothing, and a part, of a pattern (protocol.md 3.8); all of it, or what is not known, is the empty
text."""

SAMPLES_MAX = 200
"""Subjects that are asked about for one pattern, in about 2 ms; two are enough where the answers differ."""

ANSWERS_MAX = 4096
"""Answers that one principal remembers; beyond it they are worked out anew."""


class Principal:
    """The identity a connection acts for; ``claims`` is None for anonymous, ``asked`` unless a hook decides as well."""

    __slots__ = (
        *("answers", "asked", "claims", "expires", "holders", "known_at", "permitted", "publishable", "superuser"),
        *("uid", "user", "version"),
    )

    def __init__(
        self,
        claims: Claims | None,
        superuser: bool,
        holders: tuple[str, ...],
        user: str = "",
        uid: str = "",
        permitted: RuleSet | None = None,
    ) -> None:
        self.claims = claims
        self.expires = claims.expires if claims else None
        """The time when the token ends, in ms."""
        self.user = user or (claims.user if claims else "")
        self.uid = uid or (claims.uid if claims else "")
        self.superuser = superuser
        self.holders = holders
        self.permitted = permitted
        """The token's own permissions, ready to be asked; None: the token has none, or nobody has asked yet."""
        self.version = 0  # of the rights, users and sessions that it was made under
        self.answers: dict[tuple[str, str], str] | None = None
        self.publishable: set[str] | None = None
        self.known_at = 0  # of the rights that ``publishable`` was found out under
        self.asked: HookState | None = None

    def take_over(self, asked: HookState) -> None:
        """Act for the connection about which a hook is asked from now on, and for whom the hook says that it acts."""
        self.asked = asked
        if asked.user is not None:
            self.user = asked.user


class Why(NamedTuple):
    """An answer and its reason, for people; ``rule`` is the id of Django's rule that decides, if one does."""

    allowed: bool
    reason: str
    rule: int | None = None


class Reach(NamedTuple):
    """The part of what was asked for that may be read, the reason why not all, and the number of subjects that were
    tried."""

    rights: str = ""
    reason: str = ""
    looked: int = 0


def reach_of(subjects: Iterable[str], why: Callable[[str], Why]) -> Reach:
    """Return the reach that these subjects stand for; ``why`` says of each whether it may be read, and notes
    nothing."""
    allowed, reason, looked = False, "", 0
    for subject in subjects:
        if looked == SAMPLES_MAX:
            return Reach("" if allowed else PARTIAL, reason, looked)
        looked += 1
        answer = why(subject)
        if answer.allowed or answer.reason in PENDING:
            allowed = True
        else:
            # In the words of a denial: a client is not told which subjects there are that it may not read.
            reason = reason or (answer.reason if answer.rule is None else f"rule {answer.rule} denies it")
        if allowed and reason:
            return Reach(PARTIAL, reason, looked)
    return Reach("" if allowed or not looked else DENIED, reason, looked)


class Grants:
    """Mode ``none``: everybody may do everything; the base of the other modes."""

    mode = "none"
    ready = True
    generation: int | None = None
    keys: Keys | None = None
    """Keys that tokens are signed with, in the modes whose tokens are."""
    _everybody = Principal(None, True, ())

    def principal(self, token: str, now: int) -> Principal:
        """Return the principal of the token's bearer (empty: anonymous); raises Refused."""
        del token, now
        return self._everybody

    def current(self, principal: Principal) -> Principal:
        """Return the principal under the present rights; raise Refused when it has none any more."""
        return principal

    def refreshed(self, principal: Principal) -> Principal:
        """Return the principal made anew, whether rights are known to have changed or not; raise Refused."""
        return principal

    def keys_changed(self) -> None:
        """Refuse in ``current`` and ``refreshed`` what a key has signed that does not count any more."""

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Return an empty text when the principal may, else the reason why not."""
        del principal, action, subject, now
        return ""

    def holds(self, principal: Principal, subject: str, now: int) -> str:
        """Return an empty text when a subscription that runs may go on, else the reason why not."""
        return self.check(principal, SUBSCRIBE, subject, now)

    def offers(self, principal: Principal, subject: str, now: int) -> str:
        """Return an empty text when what the principal offers to publish there is of use, else the reason why not."""
        return self.check(principal, PUBLISH, subject, now)

    def explain(self, principal: Principal, subject: str, now: int) -> Why:
        """Say whether the principal may read the subject, and why: for people. Nothing is asked or noted for that."""
        del principal, subject, now
        return Why(True, f"in mode {self.mode} everybody may read everything")

    def reach(self, principal: Principal, pattern: str, now: int) -> Reach:
        """Return how much of what the pattern covers the principal may read, as far as that is known without asking a
        hook."""
        del principal, pattern, now
        return Reach()

    @property
    def version(self) -> int:
        """Changes whenever an answer of ``check`` may have changed."""
        return 0

    def settles(self, action: str, subject: str) -> bool:
        """Return whether ``check`` decides such a question for good, so that no hook is asked about it."""
        del action, subject
        return False

    def rights_key(self, principal: Principal, named: bool = False) -> Hashable:
        """Return what principals have in common who get the same answers at one time; ``named``: also where the name
        alone gives a right (``may_depend_on_name``)."""
        del named
        return principal

    def rights_proxy(self, principal: Principal, named: bool = False) -> Principal:
        """Return somebody who may what all of the principal's rights key may, whatever becomes of this one."""
        del named
        return principal

    def publishable(self, principal: Principal) -> set[str] | None:
        """Return the subjects that the principal is known to be allowed to publish to, by checks before; None for all.

        The caller adds what a check allowed. A change of rights empties the set.
        """
        del principal
        return None


def bounded(principal: Principal) -> set[str]:
    """Return the principal's known subjects, emptied when they are too many."""
    known = principal.publishable
    if known is None or len(known) >= ANSWERS_MAX:
        known = principal.publishable = set()
    return known
