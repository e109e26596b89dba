"""The program ``python -m realtime.jmx``: its options, and the second's beat."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections

from fastpath.java import JavaNotFound
from fastpath.stop_signal import stop_on_signals
from realtime import addresses
from realtime.addresses import Address
from realtime.conf import conf
from realtime.jmx.beans import beans
from realtime.jmx.bridge import Bridge, BridgeEnded
from realtime.process.ports import PortTaken, try_port

EACH_SECONDS = 1.0
"""Seconds from one update of the MBeans to the next."""


def main() -> int:
    """Serve; return 0 after SIGTERM or SIGINT, 1 when Java ends, 2 for what cannot be used. The reason is one
    sentence."""
    parser = argparse.ArgumentParser(prog="python -m realtime.jmx", description="Serves the figures as MBeans.")
    parser.add_argument(
        "--listen",
        help="jmx://HOST:PORT or jmx+tls://HOST:PORT?cert=FILE&key=FILE, with &name=NAME where clients call this "
        'machine otherwise; by default REALTIME["JMX"]',
    )
    parser.add_argument(
        "--password-file", help='a file whose first line is the password; by default REALTIME["JMX_PASSWORD"]'
    )
    options = parser.parse_args()
    try:
        with stop_on_signals() as stop:
            _serve(_address(options.listen), read_password(options.password_file), stop)
    except (ImproperlyConfigured, JavaNotFound, PortTaken, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"jmx: {error}\n")
        return 2
    except BridgeEnded as error:
        sys.stderr.write(f"jmx: {error}\n")
        return 1
    return 0


def _serve(address: Address, password: str, stop: threading.Event) -> None:
    with Bridge(address, password) as bridge:
        bridge.send(beans())
        sys.stdout.write(f"MBeans at {address.mbeans}\n")
        sys.stdout.flush()
        while not stop.wait(EACH_SECONDS):
            bridge.send(beans())
            close_old_connections()  # as Django does it after a request


def _address(listen: str | None) -> Address:
    address = addresses.parse("JMX", listen, "jmx", "jmx+tls", "name") if listen else conf.jmx
    if address is None:
        raise ImproperlyConfigured('there is no address: set REALTIME["JMX"], or give --listen jmx://127.0.0.1:9010')
    return address._replace(port=try_port(address.host, address.port))


def read_password(file: str | None) -> str:
    """Return the first line of a file, else what the settings say; raise ImproperlyConfigured, OSError and
    ValueError."""
    if not file:
        return conf.jmx_password
    password = Path(file).read_text(encoding="utf-8").split("\n")[0].rstrip("\r")
    if not password:
        raise ImproperlyConfigured(f"{file}: its first line is empty")
    return password
