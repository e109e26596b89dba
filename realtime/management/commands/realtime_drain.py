"""Send the clients of a node elsewhere, or call that off."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError
from realtime.conf import conf
from realtime.nodes import drain, nodes

_LOOK_SECONDS = 0.5


class Command(BaseCommand):
    """The node refuses newcomers and goes on running; SIGTERM then ends it at once."""

    help = "Send the clients of a node to the other servers, at a bounded rate; see realtime_nodes for the nodes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take NODE [--per-second N] [--wait SECONDS] [--undo]."""
        parser.add_argument(
            "node", help='an address of REALTIME["CONTROL"], the id of its server, or its number from 1'
        )
        parser.add_argument("--per-second", type=int, default=0, help="clients a second (default: the node's setting)")
        parser.add_argument("--wait", type=float, default=0, help="wait so many seconds for the last one to have gone")
        parser.add_argument("--undo", action="store_true", help="call it off: the node accepts clients again")

    def handle(self, *_: Any, **options: Any) -> None:
        """Find the node, ask it, and with --wait look until it is empty."""
        address = _address(options["node"])
        try:
            if options["undo"]:
                self.stdout.write(f"It accepts clients again; {drain.undrain(address)} stayed.")
                return
            clients = drain.drain(address, conf.servers(), options["per_second"])
            self.stdout.write(f"Draining {clients} clients.")
            if options["wait"]:
                self._wait(address, options["wait"])
        except (ClientError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from None

    def _wait(self, address: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with Control(address, timeout_seconds=conf.control_seconds) as control:
            while clients := int(control.stats()["connections"]):
                if time.monotonic() > deadline:
                    raise CommandError(f"after {seconds:g} s there are still {clients} clients")
                time.sleep(_LOOK_SECONDS)
        self.stdout.write("All have gone.")


def _address(node: str) -> str:
    addresses = conf.controls
    if node.isdecimal() and 1 <= int(node) <= len(addresses):
        return addresses[int(node) - 1]
    states = nodes.ask_all()
    found = [state.address for state in states if node in (state.address, state.name, state.hello.get("server"))]
    if len(found) != 1:
        raise CommandError(f"{node!r} is none of the nodes: {', '.join(state.name for state in states)}")
    return found[0]
