"""The blocking client against a real sidecar."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from fastpath.client import ClientError, TooLarge, Unavailable
from fastpath.client.blocking import connect
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

A, B = "/a/a", "/a/b"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One sidecar for all tests here."""
    with Sidecar(mode="none", message_bytes_max=1000) as running:
        yield running


def test_subscribe_publish_unsubscribe(shared: Sidecar) -> None:
    with connect(shared.client_url) as client:
        client.publish(A, "old", {"f": "1"})
        with client.subscribe([A, B]) as stream:
            assert [(m.kind, m.content, m.fields) for m in [stream.get(10)]] == [("snapshot", "old", {"f": "1"})]
            positions = [client.publish(A, f"{number}") for number in range(100)]
            received = [message for _, message in zip(range(100), stream, strict=False)]
            assert [(message.epoch, message.seq) for message in received] == positions
            client.unsubscribe(A)
            client.publish(A, "not wanted")
            client.publish(B, "wanted")
            assert stream.get(10).content == "wanted"
            with pytest.raises(TimeoutError):
                stream.get(0.05)
        with pytest.raises(EOFError):
            stream.get(10)
        assert list(stream) == []
        assert (client.connected, client.user) == (True, "")
        until(lambda: client.latency_ms is not None)


def test_what_a_stream_has_fetched_ahead_is_dropped_when_its_subject_is_unsubscribed(shared: Sidecar) -> None:
    with connect(shared.client_url) as client:
        stream = client.subscribe(["/ahead/a", "/ahead/b"])
        for number in range(10):
            client.publish("/ahead/a", f"{number}")
            client.publish("/ahead/b", f"{number}")
        assert [stream.get(10).content for _ in range(2)] == ["0", "0"]
        client.unsubscribe("/ahead/a")
        assert [stream.get(10).content for _ in range(9)] == [f"{number}" for number in range(1, 10)]


def test_the_errors_are_those_of_the_asynchronous_client(shared: Sidecar) -> None:
    with connect(shared.client_url, form="json") as client:
        with pytest.raises(TooLarge):
            client.publish(A, "x" * 2000)
        with pytest.raises(InvalidSubject):
            client.subscribe("/a")
    with pytest.raises(ClientError, match="with connect"):
        client.publish(A, "x")
    with pytest.raises(Unavailable), connect("ws://127.0.0.1:1/ws", timeout_seconds=0.2):
        pass
    assert not [thread for thread in threading.enumerate() if thread.name == "fastpath client"]


def test_a_reader_in_another_thread_ends_with_the_client(shared: Sidecar) -> None:
    received = []
    with connect(shared.client_url) as client:
        stream = client.subscribe("/thread/a")
        reader = threading.Thread(target=lambda: received.extend(message.content for message in stream))
        reader.start()
        for number in range(10):
            client.publish("/thread/a", f"{number}")
        until(lambda: len(received) == 10)
    reader.join(10)
    assert not reader.is_alive()
    assert received == [f"{number}" for number in range(10)]


def test_status(shared: Sidecar) -> None:
    seen: list[str] = []
    with connect(shared.client_url, on_status=lambda status: seen.append(status.name)) as client:
        status = client.status
        client.subscribe("/status/a")
        assert status.get(10).name == "subscribed"
    assert seen == ["connected", "subscribed", "closed"]
