"""The client of the publisher port with several servers: ours, and one that says it cannot store."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastpath.client import PublishTimeout
from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from fastpath.core.protocol.packets import FRAME_BYTES_MAX, Unpacker, pack
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

A = "/a/a"

Answer = Callable[[int, list[Any], int], list[Any]]


@contextmanager
def port(answer: Answer, frames: list[list[Any]]) -> Iterator[str]:
    """A publisher port that answers each batch as it is told, and keeps all frames."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            unpacker = Unpacker(FRAME_BYTES_MAX)
            with connection:
                while data := connection.recv(1 << 16):
                    for frame in unpacker.feed(data):
                        frames.append(frame)
                        if frame[0] == "hello":
                            connection.sendall(pack(["welcome", {"version": 1, "epoch": 9, "window": 16}]))
                        else:
                            connection.sendall(pack(["ack", frame[1], 9, answer(*frame[1:])]))

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def contents(sidecar: Sidecar, count: int) -> list[str]:
    """The newest contents of all subjects /n/…, by number."""
    with Control(sidecar.control) as control:
        return [control.snapshot(f"/n/{number}").get("message", {}).get("content", "") for number in range(count)]


def test_what_one_server_cannot_store_goes_to_the_next_under_the_same_numbers(sidecar: Sidecar) -> None:
    frames: list[list[Any]] = []
    with (
        port(lambda number, rows, first: [["unavailable", "away"]] * len(rows), frames) as broken,
        Publisher([broken, sidecar.publisher_url], publisher="desk") as publisher,
    ):
        publisher.send_batch([["/n/0", "a"], ["/n/1", "b"]])
        publisher.send_batch([["/n/2", "c"]])
        assert publisher.flush().accepted == 3
    assert contents(sidecar, 3) == ["a", "b", "c"]
    hello, *batches = frames
    assert hello[1]["publisher"].startswith("desk:")
    assert [(len(rows), first) for _, _, rows, first in batches] == [(2, 1), (1, 3)]


def test_where_nobody_can_store_it_is_tried_until_its_time_is_over() -> None:
    frames: list[list[Any]] = []
    with port(lambda number, rows, first: [["unavailable", "no replica"]] * len(rows), frames) as broken:
        publisher = Publisher(broken, retry_seconds=0.5)
        publisher.send_batch([[A, "x"]])
        with pytest.raises(PublishTimeout, match="no replica"):
            publisher.flush()
        publisher.close()
    assert {frame[3] for frame in frames if frame[0] == "batch"} == {1}
    assert len(frames) > 3


def test_a_server_that_dies_or_stops_is_replaced_by_the_next(sidecar: Sidecar) -> None:
    with Sidecar() as other, Publisher([sidecar.publisher_url, other.publisher_url]) as publisher:
        for round_, end in enumerate((sidecar.kill, other.stop)):
            publisher.publish(A, f"{round_}")
            end()
            if round_ == 0:
                assert publisher.publish(A, "elsewhere") == 1
            else:
                with ThreadPoolExecutor(1) as pool:
                    waiting = pool.submit(publisher.publish, A, "back")
                    sidecar.start()
                    assert waiting.result(2 * PATIENCE_SECONDS) == 1


def test_kills_with_a_journal_lose_and_double_nothing(tmp_path: Path) -> None:
    count = 3000
    settled: dict[int, Any] = {}
    with (
        Sidecar(journal="interval", data=tmp_path / "journal", cache_messages=2 * count) as sidecar,
        Publisher(
            sidecar.publisher_url, on_settled=lambda index, outcome: settled.update({index: outcome})
        ) as publisher,
        ThreadPoolExecutor(1) as pool,
    ):

        def feed() -> int:
            for start in range(0, count, 10):
                publisher.send_batch([[A, f"{number}"] for number in range(start, start + 10)])
            return publisher.flush().accepted

        feeding = pool.submit(feed)
        for kill in range(2):
            until(lambda: len(settled) > (kill + 1) * count // 4)  # noqa: B023
            sidecar.kill()
            sidecar.start()
        assert feeding.result(3 * PATIENCE_SECONDS) == count
        with Control(sidecar.control) as control:
            last = control.snapshot(A)["message"]
    assert [settled[number].seq for number in range(count)] == list(range(1, count + 1))
    assert (last["content"], last["seq"]) == (f"{count - 1}", count)
    assert len({position.epoch for position in settled.values()}) == 1
