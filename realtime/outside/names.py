"""By which names the statistics' own address answers; loaded before Django is set up."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host
from django.utils.deprecation import MiddlewareMixin

from realtime.addresses import Address


class OwnNames(MiddlewareMixin):
    """Answers by ``names``, as ALLOWED_HOSTS has them, and by any IP address.

    Without a password a page elsewhere could give this machine's address to a name of its own (DNS rebinding) and
    have a browser read the figures; an address cannot be given away like that.
    """

    names: Sequence[str] = ()

    def process_request(self, request: HttpRequest) -> None:
        """Check the host; raise DisallowedHost, which is answered with 400."""
        domain, _ = split_domain_port(request.get_host())
        if not (_is_address(domain) or validate_host(domain, self.names)):
            raise DisallowedHost(f"{domain!r} is no name of this address: see ALLOWED_HOSTS")


def own_names(allowed: Sequence[str], address: Address | None) -> list[str]:
    """Return ALLOWED_HOSTS, this machine, and the host of the address where that is a name; ``*`` is all addresses."""
    own = [address.host] if address is not None and address.host != "*" else []
    return [*allowed, "localhost", *own]


def _is_address(domain: str) -> bool:
    try:
        ip_address(domain.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
