"""A peer of the control socket that the test plays."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from tests.support.waiting import PATIENCE_SECONDS
from tests.vectors.build import packed

Peer = Callable[[socket.socket], None]


@contextlib.contextmanager
def peer(path: str, *behaviours: Peer) -> Iterator[None]:
    """Something that listens at the path and behaves so on its first, second, … connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            for behave in behaviours:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(PATIENCE_SECONDS)
                    behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def framed(value: object) -> bytes:
    """A frame made without the client's own code."""
    body = packed(value)
    return len(body).to_bytes(4, "big") + body
