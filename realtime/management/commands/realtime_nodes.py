"""List the nodes of REALTIME["CONTROL"]."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from realtime.nodes import nodes

_COLUMNS = ("address", "server", "engine", "epoch", "generation", "clients", "draining")


class Command(BaseCommand):
    """One line a node."""

    help = "List the nodes: address, server, engine, epoch, generation of the rights, clients, draining."

    def handle(self, *_: Any, **__: Any) -> None:
        """Ask them all at once, and print a table."""
        states = nodes.ask_all()
        rows = [_COLUMNS, *(_row(state) for state in states)]
        full = [row for row in rows if len(row) == len(_COLUMNS)]
        widths = [max(len(row[place]) for row in (full if place else rows)) for place in range(len(_COLUMNS))]
        for row in rows:
            line = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False))
            self.stdout.write(line.rstrip())
        answering = [state for state in states if not state.error]
        clients = sum(int(state.figures["connections"]) for state in answering)
        self.stdout.write(f"{len(answering)} of {len(states)} nodes, {clients} clients")


def _row(state: nodes.State) -> tuple[str, ...]:
    if state.error:
        return (state.name, f"away: {state.error}")
    hello = state.hello
    generation = "-" if hello["generation"] is None else str(hello["generation"])
    draining = "yes" if state.draining else "no"
    clients = str(int(state.figures["connections"]))
    return (state.name, hello["server"], hello["engine"], str(hello["epoch"]), generation, clients, draining)
