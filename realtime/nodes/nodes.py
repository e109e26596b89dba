"""What each node says of itself, asked at most once a second, for the server list and the monitoring page."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.urls import get_script_prefix

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.client.errors import ControlRefused
from realtime import relay
from realtime.conf import Server, conf
from realtime.nodes.asking import ANSWER_SECONDS, Background, Said

FRESH_SECONDS = 1.0
"""Seconds after which what is known of a node is asked again."""

WAIT_SECONDS = 0.3
"""Seconds that a page waits for nodes that answered before; one that is away is never waited for."""


@dataclass(frozen=True)
class State:
    """A node as it was when it was asked last; ``error`` says why it did not answer, and then nothing else is known."""

    address: str
    hello: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons why the node is not ready, by name (docs/operate/logs.md); empty when it is."""
    warnings: dict[str, str] = field(default_factory=dict)
    """Faults that somebody has to put right though the node serves on, by name."""

    @property
    def name(self) -> str:
        """The address without its files."""
        return label(self.address)

    @property
    def draining(self) -> bool:
        """State of the node: True while it sends its clients elsewhere."""
        return bool(self.hello.get("draining"))

    @property
    def takes_clients(self) -> bool:
        """State of the node: True while clients should go there."""
        return not self.error and not self.draining


_Told = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


class _Node:
    """The last words of one node, and what it is being asked."""

    def __init__(self, address: str) -> None:
        self.state = State(address, error="it has not answered yet")
        self.away = False
        self.asked_at = float("-inf")
        self.asking: Future[Said[_Told]] | None = None

    def hear(self) -> None:
        """Note what it has said, if it has by now."""
        if self.asking is None or not self.asking.done():
            return
        said, self.asking = self.asking.result(), None
        hello, figures, health = said.value or ({}, {}, {})
        reasons, warnings = (dict(health.get(name) or {}) for name in ("reasons", "warnings"))
        self.state = State(self.state.address, hello, figures, said.error, reasons, warnings)
        self.away = bool(said.error)


def _told(control: Control) -> _Told:
    return control.hello(), control.stats(), _health(control)


def _health(control: Control) -> dict[str, Any]:
    """Return whether the node is ready, and why not; one of a version that does not know the question has nothing to
    tell."""
    try:
        return control.health()
    except ControlRefused:
        return {}


class Watch:
    """The states of some nodes; each is asked by a thread of its own, so that none waits for another's answer."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._nodes = [_Node(address) for address in addresses]
        self._background = Background(addresses)
        self._lock = threading.Lock()

    def states(self, wait_seconds: float = WAIT_SECONDS) -> list[State]:
        """Return a state for each node, in the order of the addresses; of one that answers at most a second old."""
        now = time.monotonic()
        with self._lock:
            for node in self._nodes:
                node.hear()
                if node.asking is None and now - node.asked_at >= FRESH_SECONDS:
                    node.asked_at = now
                    node.asking = self._background.ask(node.state.address, _told)
            expected = {node.asking: node for node in self._nodes if node.asking is not None and not node.away}
        late = wait(expected, wait_seconds).not_done
        with self._lock:
            for node in self._nodes:
                node.hear()
            for asking in late:
                expected[asking].away |= expected[asking].asking is asking  # until it answers
        return [node.state for node in self._nodes]

    def close(self) -> None:
        """End the threads when they are done."""
        self._background.close()


def states(wait_seconds: float = WAIT_SECONDS) -> list[State]:
    """Return what is known of every node of REALTIME["CONTROL"]."""
    return _watch(tuple(conf.controls)).states(wait_seconds)


def ask_all() -> list[State]:
    """Return every node as it is now; one that does not answer takes ANSWER_SECONDS."""
    watch = Watch(tuple(conf.controls))
    try:
        return watch.states(2 * ANSWER_SECONDS)
    finally:
        watch.close()


def listed_servers(request: HttpRequest) -> list[Server]:
    """Return where the clients of a page that asks so may connect, as far as the settings say."""
    has_relay = isinstance(request, ASGIRequest) and relay.is_served()
    return conf.servers(request.get_host(), request.is_secure(), get_script_prefix().rstrip("/"), has_relay)


def servers(request: HttpRequest) -> list[Server]:
    """Return where clients may connect now: without nodes that are draining or away, unless no server would be left."""
    listed = listed_servers(request)
    if not any(server.control for server in listed):
        return listed
    known = {state.address: state for state in states()}
    good = [server for server in listed if not server.control or known[server.control].takes_clients]
    # Nobody is sent away because Django cannot see the nodes: perhaps clients can.
    return good if any(server.weight for server in good) else listed


@lru_cache(maxsize=8)
def _watch(addresses: tuple[str, ...]) -> Watch:
    return Watch(addresses)
