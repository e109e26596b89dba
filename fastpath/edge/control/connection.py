"""A connection of the control socket: requests in, each to the component that offers its verb (protocol.md 8)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from ...core.auth.grants import Principal
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.packets import Unpacker, pack
from ..runtime.runtime import Runtime

PACKET_BYTES_MAX = 16 << 20
"""A control frame (protocol.md 8.1)."""

UNSENT_BYTES_MAX = 16 << 20
"""Bytes unsent for a peer up to which it is read from, and what was read is handled."""

TURN_BYTES = 1 << 20
"""Bytes of answers after which the rest of what a peer has asked waits for the next turn of the loop."""

log = logging.getLogger("fastpath.control")


class ControlConnection(asyncio.Protocol):
    """One connection of Django; whoever can open the socket is trusted."""

    principal: Principal | None = None

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._unpacker = Unpacker(PACKET_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] | None = None  # gathered while a handler runs
        self._requests: deque[Any] = deque()  # that were read and are not handled yet
        self._full = self._paused = False
        self.request = 0
        self.ended: list[Callable[[], None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        self._runtime.control_connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of Django's connection, which is gone."""
        del exc
        self._requests.clear()
        if self._transport is not None:
            self._runtime.control_connections.discard(self._transport)
        for ended in self.ended:
            ended()

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Answer a request, also while another is handled."""
        self._send([number, "ok", answer])

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Answer a request with an error."""
        self._send([number, "error", {"code": code, "reason": reason}])

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Say something that was not asked; return how many bytes wait unsent."""
        self._send([0, name, content])
        return self.waiting()

    def waiting(self) -> int:
        """Return how many bytes wait unsent."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _send(self, packet: list[Any]) -> None:
        if self._answers is not None:
            self._answers.append(pack(packet))
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(packet))

    def pause_writing(self) -> None:
        """Read nothing more of a peer that does not take its answers, so that nothing more is answered."""
        self._full = True
        self._read()

    def resume_writing(self) -> None:
        """Read again of a peer that takes its answers again."""
        self._full = False
        self._read()
        self._runtime.loop.call_soon(self._go_on)

    def _read(self) -> None:
        """Read, unless something waits that was read, or too much that was answered."""
        assert self._transport is not None
        paused = self._full or bool(self._requests)
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Take requests, or parts of them."""
        waits = bool(self._requests)
        self._requests += self._unpacker.feed(data)
        if not waits:
            self._handle()

    def _go_on(self) -> None:
        assert self._transport is not None
        if self._requests and not self._transport.is_closing():
            self._handle()

    def _handle(self) -> None:
        """Handle what was read, as far as the answers are not too much at once."""
        assert self._transport is not None
        self._answers = []
        size = 0
        while self._requests and size < TURN_BYTES and not self._full:
            answer = self._answer(self._requests.popleft())
            if answer is not None:
                self._answers.append(pack(answer))
                size += len(self._answers[-1])
        self._runtime.end()  # before the answers: what they acknowledge is in the log by then
        answers, self._answers = self._answers, None
        self._transport.writelines(answers)
        if self._requests and not self._full:
            self._runtime.loop.call_soon(self._go_on)
        self._read()
        if self._unpacker.error is not None and not self._requests:
            log.error("control connection closed: %s", self._unpacker.error)
            self._transport.write(pack([0, "error", {"code": "invalid", "reason": str(self._unpacker.error)}]))
            self._transport.close()
        self._runtime.end()
        self._runtime.follow_rights()

    def _answer(self, packet: list[Any]) -> list[Any] | None:
        """Return the answer to a request; None when it follows later."""
        number = self.request = packet[0] if packet and isinstance(packet[0], int) else 0
        try:
            match packet:
                case [int(), str(verb), dict(arguments)] if verb in self._runtime.verbs:
                    answer = self._runtime.verbs[verb](self, arguments)
                    return None if answer is None else [number, "ok", answer]
                case _:
                    verbs = ", ".join(self._runtime.verbs)
                    raise InvalidMessage("invalid", f"a request is [id, verb, {{…}}]; verbs: {verbs}")
        except InvalidMessage as error:
            return [number, "error", {"code": error.code, "reason": error.reason}]
        except KeyError as error:
            return [number, "error", {"code": "invalid", "reason": f"the argument {error.args[0]} is missing"}]
        except (TypeError, ValueError) as error:
            return [number, "error", {"code": "invalid", "reason": f"{type(error).__name__}: {error}"}]
        except Exception as error:
            log.exception("fault while handling a control request")
            return [number, "error", {"code": "failed", "reason": f"{type(error).__name__}: {error}"}]
