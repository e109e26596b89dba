"""Have the sidecars read anew their certificates, keys and lists of addresses, without dropping a connection."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from realtime.conf import conf
from realtime.nodes.asking import ask_each


class Command(BaseCommand):
    """All nodes, or those that are named; one that is away or has an error keeps none of the others from reloading."""

    help = (
        "Have the sidecars read certificates, keys, publish_from, origins and trusted_proxies anew "
        "(docs/operate/ports.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [ADDRESS …]."""
        parser.add_argument("address", nargs="*", help='addresses of REALTIME["CONTROL"] (default: all)')

    def handle(self, *_: Any, **options: Any) -> None:
        """Ask each node; CommandError when one of them could not use something."""
        errors = []
        addresses = options["address"] or conf.controls
        for address, said in zip(addresses, ask_each(addresses, Control.reload, conf.control_seconds), strict=True):
            found = [said.failure] if said.value is None else said.value["errors"]
            errors += [f"{label(address)}: {error}" for error in found]
            if not found:
                self.stdout.write(f"{label(address)}: reloaded")
        if errors:
            raise CommandError("\n".join(errors))
