"""``python -m tests.support.failpoints``: the sidecar with failpoints and deliberate bugs; the product has none.

``FASTPATH_FAULTS_DO`` says which, comma-separated; each fires once:

* ``kill:STEP:N``: the process kills itself when it has done a step N times: ``write`` (the engine has stored a batch),
  ``apply`` (it is in caches and queues), ``acknowledge`` (it was acknowledged), ``flush`` (clients were sent it);
  of staged rows ``stage`` (a chunk is staged), ``begin`` (a commit is begun), ``release`` (a slice of it is stored) and
  ``finish`` (it is done, and nobody was told).
* ``lose:N``, ``double:N``, ``swap:N``: the N-th publication is acknowledged and not stored, stored twice, or delivered
  in the place of the next one of its subject. ``hide:N``: the N-th recovery is without one of its messages.
* ``forget:N``: the N-th message of QoS 1 to clients of MQTT is never sent, though their session has it as sent.
  ``anew:N``: the N-th publication of MQTT that comes again is stored again.
* ``clock:PATH``: the file's first 8 bytes, a signed little-endian number, are added to the time in ms.

Instead of N there may be the path of such a file: it counts from when a number is written there, down to 0. They
prove that the checker sees what it has to see.

It replaces methods of live objects: hook points in their place would cost every publication a look.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any

import msgspec

from fastpath.__main__ import main
from fastpath.core.auth.grants import Principal
from fastpath.core.broker.admission import Done, Outcome
from fastpath.core.cache.history import Ring
from fastpath.core.delivery import backlogs
from fastpath.core.mqtt.outgoing import Outgoing, SharedMessage
from fastpath.core.mqtt.records import Record
from fastpath.core.mqtt.session import MqttSession
from fastpath.core.protocol.messages import Message
from fastpath.edge.runtime import runtime as clock_module
from fastpath.edge.runtime.runtime import Runtime
from fastpath.edge.transactions.release import CommitRelease
from fastpath.server import app, publisher_services

WANTED = "FASTPATH_FAULTS_DO"
HIDDEN_MESSAGES_MIN = 3
"""A recovery that is shorter is left alone: something has to come behind what is hidden."""

_NUMBER = struct.Struct("<q")

log = logging.getLogger("fastpath.faults")


class _Countdown:
    """True for the N-th of what is counted, and not again."""

    def __init__(self, text: str) -> None:
        self._memory = bytearray(_NUMBER.pack(int(text))) if text.isdecimal() else _mapped(text)

    def reached(self, count: int = 1) -> bool:
        """Count; whether the N-th was among these."""
        (left,) = _NUMBER.unpack_from(self._memory)
        if left <= 0:
            return False
        _NUMBER.pack_into(self._memory, 0, max(0, left - count))
        return bool(left <= count)


def _mapped(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), _NUMBER.size)


def install(runtime: Runtime) -> None:
    """Wrap what the environment asks for; raises ValueError for what is none of the above."""
    for word in filter(None, os.environ.get(WANTED, "").split(",")):
        log.warning("a deliberate fault is installed: %s", word)
        name, _, rest = word.partition(":")
        match name:
            case "kill":
                step, _, number = rest.partition(":")
                _KILLS[step](runtime, _Countdown(number))
            case "clock":
                _clock(rest)
            case _:
                _BUGS[name](runtime, _Countdown(rest))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_after_write(runtime: Runtime, due: _Countdown) -> None:
    numbering = runtime.broker.engine.numbering
    if numbering is None:
        return  # Redis stores it
    append = numbering.append

    def wrapped(messages: Sequence[Message], now: int) -> list[Outcome] | None:
        outcomes = append(messages, now)
        if due.reached():
            _die()
        return outcomes

    numbering.append = wrapped  # type: ignore[method-assign]


def _kill_after_apply(runtime: Runtime, due: _Countdown) -> None:
    deliver = runtime.broker.deliver

    def wrapped(messages: Sequence[Message]) -> None:
        deliver(messages)
        if messages and due.reached():
            _die()

    runtime.broker.deliver = wrapped  # type: ignore[method-assign]


def _kill_after_acknowledge(runtime: Runtime, due: _Countdown) -> None:
    publish = runtime.broker.publish

    def wrapped(principal: Principal | None, messages: Sequence[Message], now: int, done: Done | None = None) -> None:
        def told(outcomes: list[Outcome]) -> None:
            if done is not None:
                done(outcomes)
            if due.reached():
                runtime.loop.call_soon(_die)  # the answer is written when the handler has returned

        publish(principal, messages, now, told)

    runtime.broker.publish = wrapped  # type: ignore[method-assign]


def _kill_after_flush(runtime: Runtime, due: _Countdown) -> None:
    flush = runtime.broker.flush

    def wrapped(now: int | None = None) -> None:
        something = bool(runtime.broker.dirty)
        flush(now)
        if something and due.reached():
            _die()

    runtime.broker.flush = wrapped  # type: ignore[method-assign]


def _kill_after_release(runtime: Runtime, due: _Countdown) -> None:
    del runtime
    release = CommitRelease._slice

    async def wrapped(*arguments: Any) -> Any:
        outcomes = await release(*arguments)
        if due.reached():
            _die()
        return outcomes

    CommitRelease._slice = wrapped  # type: ignore[assignment, method-assign]


def _kill_after_staging(name: str) -> Callable[[Runtime, _Countdown], None]:
    """Kill the process when the store of staged rows has done its part."""

    def kill(runtime: Runtime, due: _Countdown) -> None:
        del runtime
        make = publisher_services.make_staging

        def made(*arguments: Any) -> Any:
            store: Any = make(*arguments)
            work = getattr(store, name)

            async def wrapped(*arguments: Any) -> Any:
                done = await work(*arguments)
                if due.reached():
                    _die()
                return done

            setattr(store, name, wrapped)
            return store

        publisher_services.make_staging = made  # type: ignore[assignment]

    return kill


def _lose(runtime: Runtime, due: _Countdown) -> None:
    """Acknowledge a message under the number of the one before it, and drop it."""
    publish = runtime.broker.publish

    def wrapped(principal: Principal | None, messages: Sequence[Message], now: int, done: Done | None = None) -> None:
        if not messages or not due.reached(len(messages)):
            publish(principal, messages, now, done)
            return
        at = len(messages) // 2
        topic = runtime.broker.interest.topics.get(messages[at].subject)

        def told(outcomes: list[Outcome]) -> None:
            if done is not None:
                done([*outcomes[:at], topic.seq if topic is not None else 1, *outcomes[at:]])

        publish(principal, [*messages[:at], *messages[at + 1 :]], now, told)

    runtime.broker.publish = wrapped  # type: ignore[method-assign]


def _double(runtime: Runtime, due: _Countdown) -> None:
    """Publish a second copy, without the publication's number, after the first."""
    publish = runtime.broker.publish

    def wrapped(principal: Principal | None, messages: Sequence[Message], now: int, done: Done | None = None) -> None:
        copy = msgspec.structs.replace(messages[0], publisher=None, publication=0) if messages else None
        publish(principal, messages, now, done)
        if copy is not None and due.reached(len(messages)):
            publish(principal, [copy], now, None)

    runtime.broker.publish = wrapped  # type: ignore[method-assign]


def _swap(runtime: Runtime, due: _Countdown) -> None:
    """Have two messages of a publisher to one subject, numbered already, change what they say."""
    deliver = runtime.broker.deliver
    wanted = False

    def wrapped(messages: Sequence[Message]) -> None:
        nonlocal wanted
        wanted = due.reached(len(messages)) or wanted
        if wanted and (pair := _pair(messages)):
            wanted = False
            one, other = pair
            one.content, other.content = other.content, one.content
        deliver(messages)

    runtime.broker.deliver = wrapped  # type: ignore[method-assign]


def _pair(messages: Sequence[Message]) -> tuple[Message, Message] | None:
    known: dict[tuple[str, str | None], Message] = {}
    for message in messages:
        before = known.setdefault((message.subject, message.publisher), message)
        if before is not message:
            return before, message
    return None


def _hide(_: Runtime, due: _Countdown) -> None:
    """Leave out one of the messages that a client missed, and tell the client that none is."""
    part = backlogs.part  # type: ignore[attr-defined]

    def wrapped(ring: Ring, at: int, count: int) -> list[Message]:
        missed = part(ring, at, count)
        if len(missed) >= HIDDEN_MESSAGES_MIN and due.reached():
            del missed[0]  # the only one that the slice sends for sure, however little room it has
        return missed

    backlogs.part = wrapped  # type: ignore[attr-defined]


def _forget(_: Runtime, due: _Countdown) -> None:
    packet_of = Outgoing._packet

    def wrapped(self: Outgoing, record: Record, *arguments: Any) -> bytes:
        packet = packet_of(self, record, *arguments)
        if packet and self._session.in_flight and due.reached():
            self._session.acknowledged(next(reversed(self._session.in_flight)))
            return b""
        return packet

    take_alike = Outgoing.take_alike

    def wrapped_alike(self: Outgoing, messages: Sequence[SharedMessage]) -> bytes | None:
        packets, in_flight = take_alike(self, messages), self._session.in_flight
        newest = next(reversed(in_flight), 0)
        if packets and newest and in_flight[newest] in packets and due.reached():
            packets = packets.replace(in_flight[newest], b"")
            self._session.acknowledged(newest)
        return packets

    Outgoing._packet = wrapped  # type: ignore[assignment, method-assign]
    Outgoing.take_alike = wrapped_alike  # type: ignore[method-assign]


def _anew(_: Runtime, due: _Countdown) -> None:
    number = MqttSession.number

    def wrapped(self: MqttSession, packet_id: int, digest: int, *, again: bool) -> int:
        known = again and self.digests.get(packet_id) == digest
        return number(self, packet_id, digest, again=again and not (known and due.reached()))

    MqttSession.number = wrapped  # type: ignore[method-assign]


def _clock(path: str) -> None:
    """Move what the one clock of the sidecar, runtime.now, reads."""
    offset = _mapped(path)

    def shifted() -> int:
        return time_ns() + int(_NUMBER.unpack_from(offset)[0]) * 1_000_000

    clock_module.time_ns = shifted  # type: ignore[attr-defined]


_KILLS: dict[str, Callable[[Runtime, _Countdown], None]] = {
    "write": _kill_after_write,
    "apply": _kill_after_apply,
    "acknowledge": _kill_after_acknowledge,
    "flush": _kill_after_flush,
    "stage": _kill_after_staging("put"),
    "begin": _kill_after_staging("begin"),
    "release": _kill_after_release,
    "finish": _kill_after_staging("finish"),
}
_BUGS: dict[str, Callable[[Runtime, _Countdown], None]] = {
    "lose": _lose,
    "double": _double,
    "swap": _swap,
    "hide": _hide,
    "forget": _forget,
    "anew": _anew,
}


if __name__ == "__main__":
    make = app.make_runtime

    def made(*arguments: Any) -> Runtime:
        """Return the product's runtime with what is asked for."""
        runtime = make(*arguments)
        install(runtime)
        return runtime

    app.make_runtime = made
    sys.exit(main())
