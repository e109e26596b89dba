"""A sample each second for the statistics: kept for who collects them, who hands back what the meta-subjects say."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import STANDARD, Message
from ...core.telemetry.samples import NAMES, ROWS_MAX, WINDOWS, Ring, Sampler, Windows
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from .figures import Statistics

CLUSTER = "/__sys__/cluster"
"""The figures of all nodes together as fields, and of each as JSON; once a second, from the collector in Django."""

LATE_SECONDS = 0.25
"""Seconds after each whole second, at which the workers look at what they have counted, and tell the first one."""

FIELDS_MAX = 256


class Samples:
    """The samples of the figures of all workers, on the first worker or the only process, each whole second of the
    clock that never jumps; the verbs ``samples`` and ``figures`` of the control socket ask for them (protocol.md 8.12).
    """

    def __init__(self, runtime: Runtime, statistics: Statistics) -> None:
        self._runtime = runtime
        self._statistics = statistics
        self._ring = Ring()
        self._sampler = Sampler()
        self.offers = Offers(verbs={"samples": self._samples, "figures": self._figures})

    def start(self) -> None:
        """Begin, unless the operator wants no statistics."""
        if self._runtime.settings.statistics:
            number = _second()
            self._runtime.workers.ended()
            self._sampler.begin(number, self._statistics.by_worker())
            self._wait(number)

    def _wait(self, number: int) -> None:
        self._runtime.loop.call_later(max(number + 1 + LATE_SECONDS - time.monotonic(), 0), self._tick)

    def _tick(self) -> None:
        number = _second()
        each, ended = self._statistics.by_worker(), self._runtime.workers.ended()
        self._ring.add(number, self._sampler.take(number, self._statistics.figures(each), each, ended))
        self._wait(number)

    def _samples(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer samples after the one numbered ``after`` of ``server``; of another server's numbers nothing is
        known."""
        del peer
        server, after = self._runtime.broker.server, arguments.get("after")
        if type(after) is not int or arguments.get("server", server) != server:
            after = -1
        return {
            "server": server,
            "now": time.monotonic(),
            # Nodes on one Redis deliver the same messages.
            "shared": self._runtime.broker.engine.shared,
            "names": NAMES,
            "rows": self._ring.after(after, ROWS_MAX),
        }

    def _figures(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Publish what the collector has found out."""
        del peer
        fields, content, windows = arguments["fields"], arguments["content"], arguments.get("windows")
        if not isinstance(fields, dict) or len(fields) > FIELDS_MAX or not all(map(_figure, fields.items())):
            raise InvalidMessage("invalid", f"fields are at most {FIELDS_MAX} figures by their names")
        messages = [Message(CLUSTER, content, {name: _text(value) for name, value in fields.items()}, qos=STANDARD)]
        if windows is not None:
            _checked(windows)
            messages.append(Message(WINDOWS, windows, {}, qos=STANDARD))
        for message in messages:
            if not isinstance(message.content, str):
                raise InvalidMessage("invalid", "content and windows are texts")
            if len(message.content) > self._runtime.settings.message_bytes_max:
                raise InvalidMessage("too_large", "content and windows pass message_bytes_max")
        for message in messages:
            self._runtime.broker.publish_own(message, now())
        return {}


def _second() -> int:
    """Return the whole second that was told of LATE_SECONDS ago; half a second later it is the next."""
    return round(time.monotonic() - LATE_SECONDS)


def _checked(windows: Any) -> None:
    """Raise InvalidMessage unless it is the statistics as JSON, which the audit hands on."""
    try:
        msgspec.json.decode(windows, type=Windows)
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidMessage("invalid", f"windows are the statistics as JSON: {error}") from None


def _figure(item: tuple[Any, Any]) -> bool:
    name, value = item
    return isinstance(name, str) and 0 < len(name) <= FIELDS_MAX and type(value) in (int, float)


def _text(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
