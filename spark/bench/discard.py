"""A publisher port that acknowledges everything and keeps nothing: what is left of a write is what the writer costs."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, cast

import msgspec

WELCOME = {"version": 1, "server": "discard", "epoch": 1, "user": "", "window": 16, "frame_bytes": 4 << 20}
WELCOME |= {"batch_messages": 10_000}


class _Frame(msgspec.Struct, array_like=True):
    """The beginning of any frame; the rest is not decoded."""

    kind: str
    number: Any = None
    third: msgspec.Raw = msgspec.Raw()
    fourth: msgspec.Raw = msgspec.Raw()
    fifth: msgspec.Raw = msgspec.Raw()


_decode = msgspec.msgpack.Decoder(_Frame).decode
_encode = msgspec.msgpack.Encoder().encode
_rows = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Discard(asyncio.Protocol):
    """The connection of a publisher whose rows are acknowledged and dropped."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a new connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Acknowledge the frames that are whole, and keep the part of one."""
        buffer = self._buffer
        buffer += data
        answers = []
        at = 0
        with memoryview(buffer) as view:
            while len(buffer) - at >= 4:
                size = int.from_bytes(view[at : at + 4], "big")
                if len(buffer) - at - 4 < size:
                    break
                answers.append(self._answer(_decode(view[at + 4 : at + 4 + size])))
                at += 4 + size
        del buffer[:at]
        self._transport.write(b"".join(len(one).to_bytes(4, "big") + one for one in answers))

    def _answer(self, frame: _Frame) -> bytes:
        number = frame.number
        match frame.kind:
            case "hello":
                return _encode(["welcome", WELCOME])
            case "batch":
                return _encode(["ack", number, 1, [1] * len(_rows(frame.third))])
            case "stage":
                return _encode(["staged", number, msgspec.msgpack.decode(frame.fourth), []])
            case "commit":
                winners = msgspec.msgpack.decode(frame.fifth)
                done: dict[str, Any] = {"rows": sum(one[2] for one in winners), "repeated": False, "refused": []}
                done |= {"refused_rows": 0, "outdated": 0, "winners": winners}
                return _encode(["committed", number, done])
            case "abort":
                return _encode(["aborted", number])
            case _:
                return _encode(["pong", number])


async def serve() -> None:
    """Print the address, then serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(Discard, "127.0.0.1", 0)
    print("{}:{}".format(*server.sockets[0].getsockname()), flush=True)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
