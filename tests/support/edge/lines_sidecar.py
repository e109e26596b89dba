"""A sidecar whose clients may speak lines of JSON as well: a wire, and a way in, that no file of the product knows.

``python -m tests.support.edge.lines_sidecar`` is a sidecar; a connection that begins with ``LINES /ws?token=…`` and a
line feed gets lines (tests/support/core/lines.py) instead of frames, and says such: ``>`` and a command, ``.`` and the
payload of a ping, ``!`` at its end. Its socket, turns, queue, rights and goodbye are those of every client.
"""

from __future__ import annotations

import sys

from fastpath.__main__ import main
from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.errors import Close, FrameError
from fastpath.core.websocket.frames import CLOSE, PONG, TEXT, Event, FrameReader
from fastpath.core.websocket.handshake import Request
from fastpath.edge.clients.connection import ClientConnection
from tests.support.core.lines import JsonLines
from tests.support.edge.lines import OPENING

LINES = JsonLines()
KINDS = {ord(">"): TEXT, ord("."): PONG, ord("!"): CLOSE}

ask_over_http = ClientConnection.requested


class LineReader(FrameReader):
    """Makes of lines what the other makes of frames."""

    __slots__ = ("_bytes_max", "_over", "_rest")

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self._bytes_max = bytes_max
        self._rest = b""
        self._over = False

    @property
    def over(self) -> bool:
        """Whether its client has said its end."""
        return self._over

    def feed(self, data: bytes) -> list[Event]:
        """Whole lines, until one is wrong."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: list[Event] = []
        for line in lines if self.error is None and not self.over else ():
            opcode = KINDS.get(line[0] if line else 0)
            if opcode is None or len(line) > self._bytes_max:
                self.error = FrameError(Close.BAD_MESSAGE, "this is no line of a command")
                break
            events.append((opcode, bytes.fromhex(line[1:].decode()) if opcode == PONG else line[1:]))
            self._over = opcode == CLOSE
        return events


def requested(self: ClientConnection, data: bytes) -> None:
    """What a connection says first."""
    if not data.startswith(OPENING):
        ask_over_http(self, data)
        return
    line, _, rest = data.partition(b"\n")
    path, _, query = line.removeprefix(OPENING).decode().partition("?")
    token = dict(one.split("=", 1) for one in query.split("&") if one).get("token", "")
    terms = terms_of(LINES, self.listener.batch_ms, self.listener.batch_bytes)
    self.reader = LineReader(self.runtime.command_bytes_max)
    refused = self.open(token, terms, direct=self.socket.direct)
    self.tell_opened(Request("LINES", path, path, query, "1", {}, len(line)), token, refused)
    if not self.turn_away(refused) and rest:
        self.frames(rest)


if __name__ == "__main__":
    ClientConnection.requested = requested  # type: ignore[method-assign]
    sys.exit(main())
