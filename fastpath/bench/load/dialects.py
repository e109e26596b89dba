"""How a server is spoken to: what opens a connection, subscribes and publishes, and reads its deliveries in full."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import msgspec

from fastpath.core.websocket.frames import BINARY, TEXT

from .peer_dialects import PeerDialect, masked, upgrade
from .sockets import BenchError, Sockets
from .tracks import FrameTrack, MarkerTrack, Tally, Track

Tokens = Callable[[int], str]
"""The token of a connection by its number; empty for an anonymous one."""

Items = Sequence[tuple[str, bytes]]
"""Publications: subjects with their payloads (payload.py)."""

ENCODERS: dict[str, Callable[[object], bytes]] = {
    "json": msgspec.json.Encoder().encode,
    "msgpack": msgspec.msgpack.Encoder().encode,
}


def anonymous(number: int) -> str:
    """Return no token, whatever the connection."""
    del number
    return ""


class Dialect(ABC):
    """The dialect of one server. A delivery is told by its payload alone, whatever stands around it.

    ``settled`` are bytes whose arrival says that every subscription is in force, empty if the answer to the
    upgrade says it; ``refused`` those that say, before it, that one was refused; ``upgrades`` whether a connection
    begins with a WebSocket upgrade. Where there is a ``greeting``, the end of what the server says first, it is waited
    for before the preamble is said.
    """

    name = ""
    form = "text"
    fields: Mapping[str, str] = {}
    settled = b""
    refused = b""
    upgrades = True
    greeting = b""

    def subject(self, index: int) -> str:
        """Return a subject's name by its index."""
        return f"s{index:03d}"

    @abstractmethod
    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        """Return what is sent as soon as the socket is connected; ``publishes`` is a publisher's first subject."""

    def preamble(self, number: int, subjects: Sequence[str]) -> bytes:
        """Return what is sent after the upgrade, or at once where there is none; a publisher has no subjects."""
        return b""

    def say(self, sockets: Sockets, fd: int, preamble: bytes, heard: bytes) -> None:
        """Say the preamble; ``heard`` is what the server has said before."""
        del heard
        sockets.write_all(fd, preamble)

    @abstractmethod
    def publications(self, items: Items) -> bytes:
        """Return what publishes the items in order, in one write."""

    def track(self, tally: Tally) -> Track:
        """Return what reads a sampled connection in full."""
        return MarkerTrack(tally)


class Floor(Dialect):
    """The bare C program: the address names the subjects, a publication is a text frame "s000 payload"."""

    name = "floor"

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return upgrade(f"/s/{','.join(subjects)}" if subjects else "/p")

    def publications(self, items: Items) -> bytes:
        return b"".join([masked(TEXT, subject.encode() + b" " + payload) for subject, payload in items])


class FloorAll(Floor):
    """The dialect of the floor where each subscriber has every subject: one connection set instead of lists."""

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return upgrade("/s/*" if subjects else "/p")


class PeerAdapter(Dialect):
    """Another server, by what peer_dialects.py says of it."""

    def __init__(self, peer: PeerDialect) -> None:
        self._peer = peer
        self.name = peer.name
        self.settled = peer.settled
        self.upgrades = peer.opcode is not None

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return self._peer.opening(subjects, publishes)

    def preamble(self, number: int, subjects: Sequence[str]) -> bytes:
        return self._peer.preamble(number, subjects)

    def publications(self, items: Items) -> bytes:
        publication = self._peer.publication
        return b"".join([publication(subject, payload) for subject, payload in items])


class Fastpath(Dialect):
    """The dialect of this server's WebSocket, in JSON or MessagePack.

    ``tokens`` gives each connection's token, ``pattern`` the subjects' names with ``{n}``; ``options`` are what a
    subscription asks for besides: ``history``, ``conflation``, ``slow`` (protocol.md 3.2); ``fields`` go with each
    publication.
    """

    name = "fastpath"
    settled = b"subscribed"
    refused = b"error"

    def __init__(
        self,
        form: str = "json",
        tokens: Tokens = anonymous,
        pattern: str = "/s/s{n:03d}",
        options: Mapping[str, int | str] | None = None,
        path: str = "/ws",
        fields: Mapping[str, str] | None = None,
    ) -> None:
        self.form = form
        self.fields = dict(fields or {})
        self.options = dict(options or {})
        self._tokens = tokens
        self._pattern = pattern
        self._path = path
        self._opcode = TEXT if form == "json" else BINARY
        self._encode = ENCODERS[form]

    def subject(self, index: int) -> str:
        return self._pattern.format(n=index)

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return upgrade(self._path, f"fastpath.v1.{self.form}")

    def preamble(self, number: int, subjects: Sequence[str], since: Mapping[str, Sequence[int]] | None = None) -> bytes:
        """Return the commands of protocol.md 3.1 and 3.2, a thousand subjects a command; ``since`` are the positions of
        who comes back."""
        token = self._tokens(number)
        commands: list[dict[str, object]] = [{"op": "connect", "id": 1} | ({"token": token} if token else {})]
        for at in range(0, len(subjects), 1000):
            some = list(subjects[at : at + 1000])
            command: dict[str, object] = {"op": "subscribe", "id": 2, "subjects": some} | self.options
            if since:
                command["since"] = {subject: since[subject] for subject in some if subject in since}
            commands.append(command)
        return self.commands(commands)

    def publications(self, items: Items) -> bytes:
        fields: dict[str, object] = {"fields": self.fields} if self.fields else {}
        return self.commands(
            [
                {"op": "publish", "subject": subject, "content": payload.decode("ascii")} | fields
                for subject, payload in items
            ]
        )

    def commands(self, commands: Sequence[Mapping[str, object]]) -> bytes:
        """Return what sends these commands in order."""
        opcode, encode = self._opcode, self._encode
        return b"".join([masked(opcode, encode(command)) for command in commands])

    def track(self, tally: Tally) -> Track:
        return FrameTrack(tally, self.form, conflated=bool(self.options.get("conflation")))


class EventsDialect(Fastpath):
    """The dialect of this server's events over HTTP, which only subscribers read (docs/reference/events.md)."""

    name = "fastpath-events"
    settled = b"event: subscribed"
    refused = b"event: denied"
    upgrades = False

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return b""

    def preamble(self, number: int, subjects: Sequence[str], since: Mapping[str, Sequence[int]] | None = None) -> bytes:
        """Return a request; who comes back would bring a cursor, and not ``since``."""
        token = self._tokens(number)
        query = urlencode({"subjects": ",".join(subjects), **self.options, **({"token": token} if token else {})})
        return f"GET /events?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def track(self, tally: Tally) -> Track:
        return MarkerTrack(tally)


class StreamSession(Fastpath):
    """The dialect of this server's sessions over HTTP (docs/reference/sessions.md): subscribers read a stream, and post
    what they say over one connection of their process."""

    name = "fastpath-stream"
    upgrades = False
    greeting = b"\n\n"
    _poster: HTTPConnection | None = None

    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        return b"GET /session/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def say(self, sockets: Sockets, fd: int, preamble: bytes, heard: bytes) -> None:
        if self._poster is None:
            self._poster = HTTPConnection(*sockets.address)
        number = heard.partition(b'"session":"')[2].partition(b'"')[0].decode()
        self._poster.request("POST", f"/session/{number}?n=1", preamble, {"Content-Type": "text/plain"})
        answer = self._poster.getresponse()
        answer.read()
        if answer.status != 204:
            raise BenchError(f"the server answered {answer.status} to what a subscriber posted")

    def commands(self, commands: Sequence[Mapping[str, object]]) -> bytes:
        return b"\n".join([self._encode(command) for command in commands])

    def track(self, tally: Tally) -> Track:
        return MarkerTrack(tally)


_OVER_HTTP: dict[str, type[Fastpath]] = {"sse": EventsDialect, "stream": StreamSession}


def fastpath(form: str, tokens: Tokens = anonymous, **more: Any) -> Fastpath:
    """Return the dialect of this server's subscribers in this form; ``sse`` are events, ``stream`` sessions over
    HTTP."""
    made = _OVER_HTTP.get(form)
    return Fastpath(form, tokens, **more) if made is None else made("json", tokens, **more)
