"""A control socket in front of a sidecar's own that notes what is asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from fastpath.core.protocol.packets import Unpacker
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS


@contextlib.contextmanager
def tapped(sidecar: Sidecar, path: Path) -> Iterator[list[tuple[str, int]]]:
    """Listens at ``path``; the verbs that came there in their order, each with how many messages it brought."""
    asked: list[tuple[str, int]] = []
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(str(path))
        listening.listen()
        threads: list[threading.Thread] = []

        def start(*step: object) -> None:
            threads.append(threading.Thread(target=step[0], args=step[1:]))  # type: ignore[arg-type]
            threads[-1].start()

        def end(one: socket.socket) -> None:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

        def forward(source: socket.socket, target: socket.socket, noted: bool) -> None:
            unpacker = Unpacker(16 << 20)
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    for _, verb, arguments in unpacker.feed(data) if noted else ():
                        asked.append((verb, len(arguments.get("messages", ()))))
                    target.sendall(data)
            end(source)
            end(target)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    server = socket.socket(socket.AF_UNIX)
                    for one in (client, server):
                        stack.callback(one.close)
                        stack.callback(end, one)  # first: a close alone wakes nobody who reads
                    server.connect(sidecar.control)
                    start(forward, client, server, True)
                    start(forward, server, client, False)

        start(accept)
        try:
            yield asked
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            stack.close()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
