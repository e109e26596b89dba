"""May this principal publish or read this subject: an answer and a reason, the same for every port (FEATURES E1).

A check answers the empty text for yes and the reason for no; NOT_READY is the one reason that is no denial.
"""

from __future__ import annotations

from .tokens import Claims

NOT_READY = "the rights have not arrived from Django yet; retry"
ANSWERS_MAX = 4096
"""Answers that one principal remembers; beyond it they are worked out anew."""


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


def bounded(principal: Principal) -> set[str]:
    """The principal's known subjects, emptied when they are too many."""
    known = principal.publishable
    if known is None or len(known) >= ANSWERS_MAX:
        known = principal.publishable = set()
    return known
