"""A client that speaks lines of JSON over a real socket, in place of the one that speaks frames."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.edge.wire import BINARY, CLOSE, PING, PONG, TEXT, Socket, WireClient
from tests.support.sidecar import Sidecar

OPENING = b"LINES "
COMMAND = [sys.executable, "-m", "tests.support.edge.lines_sidecar"]


class LineClient(WireClient):
    """As a `WireClient`, but for what goes over the socket: always JSON, and there are no headers."""

    def __init__(
        self, where: Sidecar | str, form: str | None = None, *, path: str = "/ws", headers: str = "", **options: Any
    ) -> None:
        del form
        assert not headers
        Socket.__init__(self, where if isinstance(where, str) else where.client_url, **options)
        self.form = "json"
        self.head = b""
        self.subjects: dict[int, str] = {}
        self.number = 0
        self.send(OPENING + path.encode() + b"\n")

    def frame(self, opcode: int, payload: bytes, *, final: bool = True) -> None:
        """Send one line."""
        assert final
        assert opcode != BINARY
        kind = {TEXT: b">", PONG: b".", CLOSE: b"!"}[opcode]
        self.send(kind + (payload.hex().encode() if opcode == PONG else payload) + b"\n")

    def next_frame(self) -> tuple[int, bytes]:
        """The next line, as a frame."""
        line = self.read_to(b"\n")
        match line[:1]:
            case b"=" | b">":
                return TEXT, line[1:]
            case b"?":
                return PING, bytes.fromhex(line[1:].decode())
        assert line[:1] == b"!", line
        code, reason = json.loads(line[1:])
        return CLOSE, code.to_bytes(2) + reason.encode()


@contextmanager
def speaking_lines() -> Iterator[None]:
    """Every `WireClient` that is made meanwhile speaks lines, and every sidecar takes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.sidecar.COMMAND", COMMAND)
        patch.setattr(WireClient, "spoken", LineClient)
        yield
