"""How a server is spoken to: what opens a connection, subscribes and publishes, and reads its deliveries in full."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fastpath.core.websocket.frames import BINARY, TEXT

from .peer_dialects import PeerDialect, masked, upgrade
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
    """No token, whatever the connection."""
    del number
    return ""


class Dialect(ABC):
    """The dialect of one server. A delivery is told by its payload alone, whatever stands around it.

    ``settled`` are bytes whose arrival says that every subscription is in force, empty if the answer to the
    upgrade says it; ``refused`` those that say, before it, that one was refused; ``upgrades`` whether a connection
    begins with a WebSocket upgrade.
    """

    name = ""
    form = "text"
    fields: Mapping[str, str] = {}
    settled = b""
    refused = b""
    upgrades = True

    def subject(self, index: int) -> str:
        """A subject's name by its index."""
        return f"s{index:03d}"

    @abstractmethod
    def opening(self, subjects: Sequence[str], publishes: str) -> bytes:
        """Sent as soon as the socket is connected; ``publishes`` is a publisher's first subject."""

    def preamble(self, number: int, subjects: Sequence[str]) -> bytes:
        """Sent after the upgrade, or at once where there is none; a publisher has no subjects."""
        return b""

    @abstractmethod
    def publications(self, items: Items) -> bytes:
        """What publishes them in order, in one write."""

    def track(self, tally: Tally) -> Track:
        """What reads a sampled connection in full."""
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
    """This server's WebSocket, in JSON or MessagePack.

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
        """Protocol.md 3.1 and 3.2, a thousand subjects a command; ``since`` are the positions of who comes back."""
        token = self._tokens(number)
        commands: list[dict[str, object]] = [{"op": "connect", "id": 1} | ({"token": token} if token else {})]
        for at in range(0, len(subjects), 1000):
            some = list(subjects[at : at + 1000])
            command: dict[str, object] = {"op": "subscribe", "id": 2, "subjects": some} | self.options
            if since:
                command["since"] = {subject: since[subject] for subject in some if subject in since}
            commands.append(command)
        return b"".join([masked(self._opcode, self._encode(command)) for command in commands])

    def publications(self, items: Items) -> bytes:
        fields: dict[str, object] = {"fields": self.fields} if self.fields else {}
        return self.commands(
            [
                {"op": "publish", "subject": subject, "content": payload.decode("ascii")} | fields
                for subject, payload in items
            ]
        )

    def commands(self, commands: Sequence[Mapping[str, object]]) -> bytes:
        """What sends these commands in order."""
        opcode, encode = self._opcode, self._encode
        return b"".join([masked(opcode, encode(command)) for command in commands])

    def track(self, tally: Tally) -> Track:
        return FrameTrack(tally, self.form, conflated=bool(self.options.get("conflation")))
