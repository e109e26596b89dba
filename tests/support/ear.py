"""A bare connection of the control socket that listens to events."""

from __future__ import annotations

import socket
from typing import Any, Self

import msgspec

from tests.support.waiting import PATIENCE_SECONDS


class Ear:
    """``with Ear(path, "access") as ear:``; it reads only when it is asked."""

    def __init__(self, path: str, *kinds: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(path)
        self.dropped = 0
        self.heard: list[dict[str, Any]] = []
        self.answer = self.ask(kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def ask(self, kinds: Any) -> Any:
        """Listen to these; the answer. Events that were on their way before it are kept in ``heard``."""
        body = msgspec.msgpack.encode([1, "listen", {"kinds": kinds}])
        self.sock.sendall(len(body).to_bytes(4) + body)
        while (packet := self._packet())[0] == 0:
            self._note(packet[2])
        return packet

    def hear(self, **wanted: Any) -> dict[str, Any]:
        """The next event with these values; what comes before is kept in ``heard``."""
        while True:
            number, name, content = self._packet()
            assert (number, name) == (0, "events")
            self._note(content)
            found = [event for event in content["events"] if wanted.items() <= event.items()]
            if found:
                return dict(found[-1])

    def _note(self, content: dict[str, Any]) -> None:
        self.dropped += content["dropped"]
        self.heard += content["events"]

    def _packet(self) -> Any:
        return msgspec.msgpack.decode(self._read(int.from_bytes(self._read(4))))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError("the sidecar closed the connection")
            data += chunk
        return data
