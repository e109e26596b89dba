"""``GET /api/servers``: where clients may connect, as this node knows it; for everybody."""

from __future__ import annotations

import re

from ..plain_http.call import Call
from ..runtime.component import Offers
from .drain import Drainer

OWN_WEIGHT = 100
"""Weight of this node among the others: as large as a weight can be."""

_HOST = re.compile(r"[A-Za-z0-9._~%-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
"""Form of a Host that may be told again: a name or an address, and a port."""


class HttpServers:
    """Tells the node itself, as the caller has reached it, and the others of the settings, or of a drain."""

    def __init__(self, drain: Drainer) -> None:
        self._drain = drain
        self.offers = Offers(endpoints={path: {"GET": self._servers} for path in ("/api/servers", "/api/servers/")})

    def _servers(self, call: Call) -> None:
        """Answer where clients may connect; raise InvalidMessage for a parameter that is not known."""
        call.check_parameters()
        others = [{"url": url, "weight": weight} for url, weight in self._drain.servers]
        own = own_address(call)
        stays = own is not None and not (self._drain.active and any(other["weight"] for other in others))
        call.answer_with({"servers": [*([{"url": own, "weight": OWN_WEIGHT}] if stays else []), *others]})


def own_address(call: Call) -> str | None:
    """Return the address of the WebSocket behind the port, or the proxy, that was asked; None where the caller named
    none."""
    host, headers = call.request.headers.get("host", ""), call.request.headers
    if not _HOST.fullmatch(host):
        return None
    # Whoever says that TLS ends in front of this port says it of its own connection, and is answered alone.
    is_secure = call.listener.tls or headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower() == "https"
    return f"{'wss' if is_secure else 'ws'}://{host}/ws"
