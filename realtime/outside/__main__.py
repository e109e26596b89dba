"""python -m realtime.outside: serves the statistics at REALTIME["STATS_LISTEN"] until it is told to stop."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import IO

from django.core.exceptions import ImproperlyConfigured
from twisted.internet.endpoints import quoteStringArgument

from realtime.addresses import Address
from realtime.conf import conf
from realtime.process.programs import require_settings
from realtime.web import Web

_END = "-----END CERTIFICATE-----"


def main() -> int:
    """Serve; return 2 when there is no address, and without DJANGO_SETTINGS_MODULE. The reason is one sentence."""
    require_settings("realtime.outside")
    try:
        address = conf.stats_listen
        if address is None:
            raise ImproperlyConfigured('there is no address: set REALTIME["STATS_LISTEN"] to http://127.0.0.1:9100')
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as chain:
            endpoint = _endpoint(address, chain)
            # Whoever reads the figures each second would fill a log of accesses.
            Web().run(["-e", endpoint, "--access-log", os.devnull, "realtime.outside.application:application"])
    except (ImproperlyConfigured, OSError) as error:
        sys.stderr.write(f"statistics: {error}\n")
        return 2
    return 0


def _endpoint(address: Address, chain: IO[str]) -> str:
    """Return the address as Twisted describes it; certificates that follow the first one go into the file."""
    parts = [f"{'ssl' if address.cert else 'tcp'}:{address.port}"]
    if address.host != "*":
        parts.append(f"interface={quoteStringArgument(address.host)}")
    if address.cert:
        parts += [f"privateKey={quoteStringArgument(address.key)}", f"certKey={quoteStringArgument(address.cert)}"]
        Path(address.key).read_bytes()  # a file that is not there is told in a sentence
        further = Path(address.cert).read_text(encoding="ascii").partition(_END)[2]
        if _END in further:
            chain.write(further)
            chain.flush()
            parts.append(f"extraCertChain={quoteStringArgument(chain.name)}")
    return ":".join(parts)


if __name__ == "__main__":
    sys.exit(main())
