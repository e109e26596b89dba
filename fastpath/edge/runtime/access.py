"""Who may come from where: trusted proxies, addresses that may publish, pages that may connect; all may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.auth.allowed_addresses import Networks, client_of
from ...core.auth.allowed_origins import Origins
from ...core.websocket.handshake import BadRequest, Request
from ...settings import Settings

if TYPE_CHECKING:
    from ...core.sessions.publications import Publications

LIVE = ("trusted_proxies", "publish_from", "origins", "log_level")
"""Settings that take force without a restart."""


class Access:
    """The addresses and origins that the settings in force allow; one for all ports of a process."""

    def __init__(self, settings: Settings, publications: Publications) -> None:
        self._publications = publications
        self.renew(settings)

    def renew(self, settings: Settings) -> None:
        """Put the settings in force: at once for publications, for everything else with the next connection."""
        self.trusted = Networks.parse(settings.trusted_proxies)
        publish_from, origins = Networks.parse(settings.publish_from), Origins.parse(settings.origins)
        self.publish_from = publish_from or None
        self._publications.accept_from(self.publish_from)
        self.origins = origins or None

    def may_publish(self, address: str) -> bool:
        """Return whether somebody at this address may publish."""
        return self.publish_from is None or address in self.publish_from

    def welcomes(self, origin: str) -> bool:
        """Return whether pages of this origin may connect."""
        return self.origins is None or origin in self.origins

    def check(self, request: Request, peer: str) -> str:
        """Return the address of whom the request comes from, through its proxies; raise BadRequest for a strange page.

        RFC 6455 10.2: a browser always sends ``Origin``, other clients need not and could send any.
        """
        headers = request.headers
        origin = headers.get("origin")
        if origin is not None and not self.welcomes(origin):
            raise BadRequest(403, "Pages of this origin may not connect here (FASTPATH_ORIGINS).")
        forwarded = headers.get("x-forwarded-for")
        return peer if forwarded is None else client_of(forwarded, peer, self.trusted)
