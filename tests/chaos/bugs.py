"""Faults that the checker has to find: the node loses, doubles, swaps or hides one message."""

from __future__ import annotations

import asyncio
from typing import Any

from .stage import Stage
from .table import Fault

RATE = 3000
"""Of one publisher, so that a batch has two messages of a subject, which can be exchanged."""

ABOUT = {"lose": (500, 2500), "double": (500, 2500), "swap": (500, 2500), "hide": (1, 5)}
"""Which publication, or recovery, the bug takes: one of these at random."""


async def _wait(stage: Stage) -> None:
    """Let the publications pass by, and cut the clients off for a moment."""
    stage.note_injection()
    await asyncio.sleep(0.5)
    for node in stage.nodes:
        assert node.proxy is not None
        node.proxy.shut()
        await asyncio.sleep(0.5)
        node.proxy.open()


def _bug(name: str) -> Fault:
    def make(**settings: Any) -> Stage:
        stage = Stage(rates=(("raw", RATE),), proxied=True, faults="on", **settings)
        number = stage.random.randint(*ABOUT[name])
        stage.nodes[0].sidecar.settings["faults_do"] = f"{name}:{number}"
        return stage

    return Fault(f"bug-{name}", f"a bug that is to {name} one message", "the checker names it", _wait, {}, make)


BUGS = tuple(_bug(name) for name in ABOUT)
