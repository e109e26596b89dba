"""The blocking client against a real sidecar."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastpath.client import ClientError, Invalid, TooLarge, Unavailable
from fastpath.client.blocking import connect
from fastpath.core.protocol.errors import InvalidSubject
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

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
            assert [(m.kind, m.content, m.fields) for m in [stream.get(PATIENCE_SECONDS)]] == [
                ("snapshot", "old", {"f": "1"})
            ]
            positions = [client.publish(A, f"{number}") for number in range(100)]
            received = [message for _, message in zip(range(100), stream, strict=False)]
            assert [(message.epoch, message.seq) for message in received] == positions
            client.unsubscribe(A)
            client.publish(A, "not wanted")
            client.publish(B, "wanted")
            assert stream.get(PATIENCE_SECONDS).content == "wanted"
            with pytest.raises(TimeoutError):
                stream.get(0.05)
        with pytest.raises(EOFError):
            stream.get(PATIENCE_SECONDS)
        assert list(stream) == []
        assert (client.connected, client.user) == (True, "")
        until(lambda: client.latency_ms is not None)


def test_what_a_stream_has_fetched_ahead_is_dropped_when_its_subject_is_unsubscribed(shared: Sidecar) -> None:
    with connect(shared.client_url) as client:
        stream = client.subscribe(["/ahead/a", "/ahead/b"])
        for number in range(10):
            client.publish("/ahead/a", f"{number}")
            client.publish("/ahead/b", f"{number}")
        assert [stream.get(PATIENCE_SECONDS).content for _ in range(2)] == ["0", "0"]
        client.unsubscribe("/ahead/a")
        assert [stream.get(PATIENCE_SECONDS).content for _ in range(9)] == [f"{number}" for number in range(1, 10)]


def test_the_errors_are_those_of_the_asynchronous_client(shared: Sidecar) -> None:
    before = set(threading.enumerate())
    with connect(shared.client_url, form="json") as client:
        with pytest.raises(TooLarge):
            client.publish(A, "x" * 2000)
        with pytest.raises(InvalidSubject):
            client.subscribe("/a")
    with pytest.raises(ClientError, match="with connect"):
        client.publish(A, "x")
    with pytest.raises(Unavailable), connect("ws://127.0.0.1:1/ws", timeout_seconds=0.2):
        pass
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "fastpath client"]


def test_a_reader_in_another_thread_ends_with_the_client(shared: Sidecar) -> None:
    received = []
    with connect(shared.client_url) as client:
        stream = client.subscribe("/thread/a")
        reader = threading.Thread(target=lambda: received.extend(message.content for message in stream))
        reader.start()
        for number in range(10):
            client.publish("/thread/a", f"{number}")
        until(lambda: len(received) == 10)
    reader.join(PATIENCE_SECONDS)
    assert not reader.is_alive()
    assert received == [f"{number}" for number in range(10)]


def test_status(shared: Sidecar) -> None:
    seen: list[str] = []
    with connect(shared.client_url, on_status=lambda status: seen.append(status.name)) as client:
        status = client.status
        client.subscribe("/status/a")
        assert status.get(PATIENCE_SECONDS).name == "subscribed"
    assert seen == ["connected", "subscribed", "closed"]


def test_several_threads_read_one_stream(shared: Sidecar) -> None:
    """Each message is one thread's, and a thread that finds that another was quicker waits for the next."""
    interval = sys.getswitchinterval()
    with connect(shared.client_url) as client, connect(shared.client_url) as publisher:
        stream = client.subscribe("/blocking/shared")
        got: list[str] = []
        with ThreadPoolExecutor(8) as pool:
            readers = [pool.submit(lambda: got.extend(str(message.content) for message in stream)) for _ in range(8)]
            sys.setswitchinterval(1e-6)
            try:
                for number in range(0, 1500, 3):
                    for future in [publisher.enqueue("/blocking/shared", str(number + more)) for more in range(3)]:
                        future.result()
                until(lambda: len(got) == 1500 or any(reader.done() for reader in readers))
            finally:
                sys.setswitchinterval(interval)
                stream.close()
        for reader in readers:
            reader.result()
    assert sorted(map(int, got)) == list(range(1500))


def test_in_a_process_that_was_forked_it_says_so(shared: Sidecar) -> None:
    """A child, which has no thread of the client's, is told what to do instead of waiting for ever."""
    with connect(shared.client_url) as client:
        stream = client.subscribe("/forked/a")
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            signal.alarm(10)
            said = []
            for use in (lambda: client.publish("/forked/a", "x"), lambda: client.enqueue("/forked/a", "x"), stream.get):
                try:
                    use()
                except ClientError as error:
                    said.append(str(error))
            client.close()
            os.write(tell, repr([text.partition(":")[0] for text in said]).encode())
            os._exit(0)
        os.close(tell)
        said = os.read(told, 1000).decode()
        os.close(told)
        os.waitpid(child, 0)
        assert client.publish("/forked/a", "parent").seq == 1
    assert said == repr(["the client was opened before this process was forked, and its thread is not here"] * 3)


@pytest.mark.parametrize("how", ["publish", "enqueue"])
def test_what_replaces_leaves_no_field_of_before(shared: Sidecar, how: str) -> None:
    subject = f"/replaced/{how}"
    with connect(shared.client_url) as client:
        client.publish(subject, "1", {"a": "1"})
        if how == "publish":
            client.publish(subject, "2", {"b": "2"}, replace=True)
        else:
            client.enqueue(subject, "2", {"b": "2"}, replace=True).result(PATIENCE_SECONDS)
        with client.subscribe(subject) as stream:
            assert stream.get(PATIENCE_SECONDS).fields == {"b": "2"}
        with pytest.raises(Invalid, match="only for what goes into the snapshot"):
            client.publish(subject, "3", replace=True, retained=False)


@pytest.mark.parametrize("how", ["remove", "enqueue"])
def test_a_subject_is_removed(shared: Sidecar, how: str) -> None:
    """Who is subscribed is told once, whoever comes later finds nothing."""
    subject = f"/removed/{how}"
    with connect(shared.client_url) as client, client.subscribe(subject) as stream:
        first = client.publish(subject, "1", {"a": "1"})
        if how == "remove":
            position = client.remove(subject, closure="mine")
        else:
            position = client.enqueue(subject, "", removed=True, closure="mine").result(PATIENCE_SECONDS)
        assert position == (first.epoch, first.seq + 1)
        assert (stream.get(PATIENCE_SECONDS).fields, client.remove(subject, qos="standard")) == ({"a": "1"}, (0, 0))
        found = [stream.get(PATIENCE_SECONDS), stream.get(10)]
        assert [(one.removed, one.content, one.fields, one.seq) for one in found] == [
            (True, "", {}, position.seq),
            (True, "", {}, 0),
        ]
        assert found[0].closure == "mine"
        with client.subscribe(subject, since=(first.epoch, first.seq)) as again:
            found = again.get(PATIENCE_SECONDS)
            assert (found.kind, found.removed) == ("recovered", True)
            assert client.publish(subject, "2").seq == position.seq + 1
            assert again.get(PATIENCE_SECONDS).fields == {}
        with pytest.raises(Invalid, match="a removal has no content"):
            client.enqueue(subject, "x", removed=True).result(PATIENCE_SECONDS)
