"""Faults that the checker has to find: the node loses, doubles, swaps or hides one message, of MQTT or any."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.waiting import auntil

from .stage import Stage
from .table import Fault

RATE = 3000
"""Of one publisher, so that a batch has two messages of a subject, which can be exchanged."""

RATE_OF_MQTT = 500
"""More than it can have acknowledged before it hangs up."""

RESENT_MIN = 25

ABOUT = {
    "lose": (500, 2500),
    "double": (500, 2500),
    "swap": (500, 2500),
    "hide": (1, 40),
    "forget": (50, 400),
    "anew": (1, 2),
}
"""Which publication, recovery, message to clients of MQTT, or publication that comes again the bug takes: one of these
at random."""

BY_MQTT = {"anew"}
"""Those of publishers that speak MQTT."""


async def _wait(stage: Stage) -> None:
    """Let the publications pass by, and cut the clients off for a moment; those of MQTT are to be sent again."""
    stage.note_injection()
    for pusher in stage.pushers:
        if pusher.kind == "mqtt":
            await auntil(lambda one=pusher: sum(each.resent for each in one.publications.values()) >= RESENT_MIN, 40)
    await asyncio.sleep(0.5)
    for node in stage.nodes:
        assert node.proxy is not None
        node.proxy.shut()
        await asyncio.sleep(0.5)
        node.proxy.open()


WORDS = {"anew": "store anew", "forget": "forget to send"}


def _bug(name: str) -> Fault:
    def make(**settings: Any) -> Stage:
        rates = (("mqtt", RATE_OF_MQTT),) if name in BY_MQTT else (("raw", RATE),)
        stage = Stage(rates=rates, proxied=True, faults="on", **settings)
        number = stage.random.randint(*ABOUT[name])
        stage.nodes[0].sidecar.settings["faults_do"] = f"{name}:{number}"
        return stage

    return Fault(
        f"bug-{name}", f"a bug that is to {WORDS.get(name, name)} one message", "the checker names it", _wait, {}, make
    )


BUGS = tuple(_bug(name) for name in ABOUT)
