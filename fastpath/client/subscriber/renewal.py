"""The schedule by which a client renews its connection's token; pure, times are seconds of one clock."""

from __future__ import annotations

from math import inf

AHEAD_SECONDS = 60
"""Seconds before a token's end at which it is renewed, but never before half of the time that is left is over."""

AGAIN_SECONDS = 1
"""Seconds until the next try after a failure; they double."""

AGAIN_SECONDS_MAX = 15
"""Seconds up to which ``AGAIN_SECONDS`` doubles."""


class Renewal:
    """The time of the next renewal: ``at``, infinite when none is planned."""

    def __init__(self) -> None:
        self.at = inf
        self._planned = False
        self._again = float(AGAIN_SECONDS)

    def taken(self, now: float, left: float | None) -> None:
        """Plan the renewal of a token that the server has taken, and that ends after so many seconds, or never."""
        self._planned, self._again = left is not None, float(AGAIN_SECONDS)
        self.at = inf if left is None else now + max(left - AHEAD_SECONDS, left / 2, 0)

    def expiring(self, now: float) -> None:
        """Renew now if nothing is planned: the server says that the token ends soon."""
        if not self._planned:
            self.at = now

    def begun(self) -> None:
        """Note that a new token is being obtained: no further renewal is due."""
        self.at = inf

    def failed(self, now: float) -> None:
        """Plan another try after a token could not be obtained, with a pause that doubles."""
        self.at = now + self._again
        self._again = min(AGAIN_SECONDS_MAX, 2 * self._again)

    def stop(self) -> None:
        """Plan nothing any more: the connection has ended."""
        self.at, self._planned = inf, False
