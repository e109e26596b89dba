"""A bare reader of events: a request over a socket, and the fields of each event as the standard has them."""

from __future__ import annotations

import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.support.edge.wire import Socket
from tests.support.sidecar import Sidecar


class Event(NamedTuple):
    """One event; ``cursor`` is the last one that was given, its own or an earlier one's."""

    name: str
    content: Any
    cursor: str


class EventReader(Socket):
    """``GET /events`` with these subjects; the keywords are further parameters."""

    def __init__(
        self,
        where: Sidecar | str,
        *subjects: str,
        cursor: str = "",
        token: str = "",
        headers: str = "",
        tls: ssl.SSLContext | None = None,
        receive_bytes: int = 0,
        **parameters: Any,
    ) -> None:
        super().__init__(where if isinstance(where, str) else where.client_url, tls=tls, receive_bytes=receive_bytes)
        query = urlencode({"subjects": ",".join(subjects), **parameters})
        lines = f"GET /events?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}"
        if cursor:
            lines += f"Last-Event-ID: {cursor}\r\n"
        if token:
            lines += f"Authorization: Bearer {token}\r\n"
        self.cursor = cursor
        self.send(f"{lines}\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.read(1)
        self.head = head.decode()
        self.status = int(self.head.split(" ")[1])

    def any(self) -> Event:
        """The next event of whatever kind; Ended at the end of the stream."""
        while True:
            name, data = "message", ""
            for line in self._block():
                field, _, value = line.partition(": ")
                match field:
                    case "event":
                        name = value
                    case "id":
                        self.cursor = value
                    case "data":
                        data = value
            if data:
                return Event(name, json.loads(data), self.cursor)

    def comment(self) -> None:
        """Wait for a comment; events before it are dropped."""
        while self._block() != [":"]:
            pass

    def comments(self) -> int:
        """How many comments stand before the next message, which is read as well; AssertionError at a close."""
        count = 0
        while not (block := self._block())[-1].endswith('"kind":"update"}'):
            assert "event: close" not in block, block
            count += block == [":"]
        return count

    def _block(self) -> list[str]:
        return self.read_to(b"\n\n").decode().split("\n")

    def next(self) -> Event:
        """The next event, but for the first one, ``connected``."""
        event = self.any()
        return self.any() if event.name == "connected" else event

    def named(self, name: str) -> Event:
        """The next event, which has this name."""
        event = self.next()
        assert event.name == name, event
        return event

    def texts(self, count: int) -> list[str]:
        """The contents of the next messages, whatever comes between them."""
        found: list[str] = []
        while len(found) < count:
            event = self.next()
            if event.name == "message":
                found.append(event.content["content"])
        return found
