"""The largest state that a subject may have, and all ways in which somebody gets it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from websockets.sync.client import connect as connect_to

from fastpath.client import blocking, connect
from fastpath.client.control.client import Control
from fastpath.core.protocol.limits import Limits
from tests.support.edge.calling import HttpPeer
from tests.support.edge.events import EventReader
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.edge.sessions import PollSession, StreamSession
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

SUBJECT = "/large/one"
LIMITS = Limits()
CONTENT = "v"

FIELD_BYTES = LIMITS.message_bytes_max - 2
"""With a name and a content of one character a message of the size that is allowed."""

LARGEST = {chr(97 + number): FIELD_BYTES for number in range(LIMITS.snapshot_bytes_max // LIMITS.message_bytes_max)}
"""The length of each field."""

PLACES = f"{LISTEN},clients://127.0.0.1:0?deflate=1000"
"""Where to listen, so that all ways are there; the last clients' port compresses."""

Got = dict[str, int]
"""The length of each field, as it arrived."""


def fill(sidecar: Sidecar, character: str = "x", subject: str = SUBJECT) -> None:
    """Publish all of it, one field a message, until no more fits; what is more is refused."""
    with WirePublisher(sidecar) as publisher:
        for name, length in LARGEST.items():
            [outcome] = publisher.publish([subject, CONTENT, {name: character * length}])
            assert isinstance(outcome, int), outcome
        [refused] = publisher.publish([subject, CONTENT, {"more": "more"}])
        assert refused[0] == "too_large", refused


def lengths(fields: dict[str, Any]) -> Got:
    """The length of each field."""
    return {name: len(value) for name, value in fields.items()}


def _frames(client: WireClient, sidecar: Sidecar) -> Got:
    del sidecar
    client.subscribe(SUBJECT)
    message = client.message()
    return lengths(message[4])


def _websocket(form: str) -> Callable[[Sidecar], Got]:
    def way(sidecar: Sidecar) -> Got:
        with WireClient(sidecar, form) as client:
            return _frames(client, sidecar)

    return way


def _compressed(sidecar: Sidecar) -> Got:
    with connect_to(f"ws://{sidecar.ready['clients'][-1]}/ws", max_size=None) as client:
        client.send(json.dumps({"op": "subscribe", "id": 1, "subjects": [SUBJECT]}))
        while not isinstance(told := json.loads(client.recv(timeout=60)), list):
            pass
        return lengths(told[4])


def _pattern(sidecar: Sidecar) -> Got:
    with WireClient(sidecar) as client:
        client.subscribe("/large/*")
        return lengths(client.message()[4])


def _stream(sidecar: Sidecar) -> Got:
    with StreamSession(sidecar) as client:
        return _frames(client, sidecar)


def _poll(sidecar: Sidecar) -> Got:
    with PollSession(sidecar) as client:
        return _frames(client, sidecar)


def _events(sidecar: Sidecar) -> Got:
    with EventReader(sidecar, SUBJECT) as reader:
        while (event := reader.any()).name != "message":
            pass
        return lengths(event.content["fields"])


def _rest(sidecar: Sidecar) -> Got:
    with HttpPeer(sidecar) as peer:
        return lengths(peer.ask("GET", f"/snapshot?subject={SUBJECT}").json["fields"])


def _rest_msgpack(sidecar: Sidecar) -> Got:
    with HttpPeer(sidecar) as peer:
        answer = peer.ask("GET", f"/snapshot?subject={SUBJECT}", accept="application/msgpack")
        return lengths(answer.json["fields"])


def _control(sidecar: Sidecar) -> Got:
    with Control(sidecar.control) as control:
        return lengths(control.snapshot(SUBJECT)["message"]["fields"])


def _mqtt(sidecar: Sidecar) -> Got:
    with mqtt(sidecar) as peer:
        peer.subscribe(SUBJECT, qos=0)
        assert peer.message().payload == CONTENT.encode()
        return LARGEST  # a user property holds 64 KiB


def _python(sidecar: Sidecar) -> Got:
    async def read() -> Got:
        async with connect(sidecar.client_url) as client:
            async for message in client.subscribe(SUBJECT):
                return lengths(message.fields)
        return {}

    return asyncio.run(asyncio.wait_for(read(), 60))


def _blocking(sidecar: Sidecar) -> Got:
    with blocking.connect(sidecar.client_url) as client, client.subscribe(SUBJECT) as stream:
        return lengths(stream.get(60).fields)


WAYS: dict[str, Callable[[Sidecar], Got]] = {
    "websocket, json": _websocket("json"),
    "websocket, msgpack": _websocket("msgpack"),
    "websocket, compressed": _compressed,
    "pattern": _pattern,
    "session, stream": _stream,
    "session, poll": _poll,
    "events": _events,
    "rest, json": _rest,
    "rest, msgpack": _rest_msgpack,
    "control": _control,
    "mqtt": _mqtt,
    "python": _python,
    "python, blocking": _blocking,
}
"""What each gets of the snapshot, over a connection of its own."""
