"""Mode ``basic``: everybody may read everything, and whoever holds the one token may publish (protocol.md 8.4)."""

from __future__ import annotations

import hmac

from .grants import Grants, Principal, bounded
from .rules import SUBSCRIBE


class BasicGrants(Grants):
    """Mode ``basic``; without a token to publish with, nobody publishes over the ports."""

    mode = "basic"

    def __init__(self, publish_token: str) -> None:
        self._token = publish_token.encode()
        self._reader = Principal(None, False, ())
        self._publisher = Principal(None, True, ())

    def principal(self, token: str, now: int) -> Principal:
        """Return the publisher for the one token; for none or any other, such as that of a signed-in page, a reader."""
        del now
        given = token.encode(errors="surrogatepass")
        return self._publisher if self._token and hmac.compare_digest(given, self._token) else self._reader

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Let everybody read, and the publisher alone publish."""
        del subject, now
        if action == SUBSCRIBE or principal.superuser:
            return ""
        return "the publish token is needed" if self._token else "no publish token is set: nobody publishes here"

    def publishable(self, principal: Principal) -> set[str] | None:
        """Return None for the publisher, who may publish to all subjects; a set that stays empty for everybody else."""
        return None if principal.superuser else bounded(principal)
