"""The client of the publisher port against a real sidecar."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fastpath.client import ConnectionRejected, PublishTimeout, RefusedMessage, connect
from fastpath.client.blocking import connect as connect_blocking
from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from fastpath.core.protocol.errors import Close
from tests.support.certificates import Certificate
from tests.support.client.shared import sidecar, subject
from tests.support.proxy import Proxy
from tests.support.rights import load_rights, rule
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, until

__all__ = ["sidecar", "subject"]

A = "/a/a"


def cached(sidecar: Sidecar, subject: str) -> list[Any]:
    """The contents that the sidecar's cache holds."""
    with connect_blocking(sidecar.client_url) as client:
        stream = client.subscribe(subject, history=100_000)
        result = [stream.get(PATIENCE_SECONDS)]
        with Control(sidecar.control) as control:
            last = control.snapshot(subject)["message"]["seq"]
        while result[-1].seq < last:
            result.append(stream.get(PATIENCE_SECONDS))
    return [message.content for message in result]


def test_batches_are_published_in_order(sidecar: Sidecar, subject: str) -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        for start in range(0, 1000, 50):
            publisher.send_batch([[subject, f"{number}"] for number in range(start, start + 50)])
        results = publisher.flush()
        assert (results.messages, results.accepted, results.refused) == (1000, 1000, [])
        assert publisher.flush().messages == 0
    assert cached(sidecar, subject) == [f"{number}" for number in range(1000)]


def test_more_than_fits_one_batch_is_split(sidecar: Sidecar) -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([["/a/many", ""]] * 25_000)
        publisher.send_batch([["/a/large", "x" * 900_000]] * 6)
        publisher.send_batch([])
        assert publisher.flush().accepted == 25_006
        publisher.send_batch([["/a/small", "x"], ["/a/huge", "x" * (5 << 20)], ["/a/small", "y"]])
        with pytest.raises(RefusedMessage) as caught:
            publisher.flush()
        assert (caught.value.index, caught.value.code) == (1, "too_large")
        assert publisher.publish("/a/small", "z") == 3


def test_one_message_is_published_and_its_number_told(sidecar: Sidecar, subject: str) -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([[subject, "before"]])
        assert (
            publisher.publish(subject, b"\x00\xff", {"a": "1", "b": b"2"}, reply_to="/r/r", closure="c", as_of="now")
            == 2
        )
        assert publisher.publish(subject, "standard", qos="standard", retained=False) == 0
        assert publisher.flush().messages == 1
        with pytest.raises(RefusedMessage, match="too_large"):
            publisher.publish(subject, "x" * (5 << 20))
        with pytest.raises(RefusedMessage, match="only one segment"):
            publisher.publish("/a", "x")
    with Control(sidecar.control) as control:
        message = control.snapshot(subject)["message"]
    assert (message["content"], message["fields"], message["seq"]) == (b"\x00\xff", {"a": "1", "b": b"2"}, 2)


def test_refusals_are_told_one_by_one() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        with Publisher(sidecar.publisher_url, mint_jwt("spark", publish=["/a/**"])) as publisher:
            publisher.send_batch([[A, "1"], ["/b/b", "2"], [A, "3"]])
            publisher.send_batch([["/a", "4"], [A, "5"]])
            results = publisher.flush(raise_refused=False)
            assert publisher.user == "spark"
            assert (results.messages, results.accepted) == (5, 3)
            assert [(refusal.index, refusal.code) for refusal in results.refused] == [(1, "denied"), (3, "invalid")]
            assert str(copy.copy(results.refused[0])) == str(results.refused[0])
        with pytest.raises(RefusedMessage), Publisher(sidecar.publisher_url, mint_jwt("spark")) as publisher:
            publisher.send_batch([[A, "1"]])


def test_after_a_restart_of_the_sidecar_all_that_was_not_acknowledged_is_sent_again(
    sidecar: Sidecar, subject: str
) -> None:
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch([[subject, "lost with the sidecar's memory"]])
        publisher.flush()
        sidecar.kill()
        with ThreadPoolExecutor(1) as pool:
            flushing = pool.submit(
                lambda: [publisher.send_batch([[subject, text]]) for text in "abc"] and publisher.flush()
            )
            sidecar.start()
            assert flushing.result(2 * PATIENCE_SECONDS).accepted == 3
    assert cached(sidecar, subject) == ["a", "b", "c"]


def test_a_cut_connection_loses_and_doubles_nothing(sidecar: Sidecar, subject: str) -> None:
    settled: dict[int, Any] = {}
    with (
        Proxy(sidecar.publisher_url) as proxy,
        Publisher(proxy.address, on_settled=lambda index, outcome: settled.update({index: outcome})) as publisher,
    ):
        for number in range(400):
            publisher.send_batch([[subject, f"{number}"]])
            if number % 20 == 10:
                proxy.cut()
        assert publisher.flush().accepted == 400
    assert cached(sidecar, subject) == [f"{number}" for number in range(400)]
    assert [settled[number].seq for number in range(400)] == list(range(1, 401))


def test_the_same_messages_under_the_same_numbers_are_stored_once(sidecar: Sidecar, subject: str) -> None:
    """As a task does that is run again; without ``first`` two with one label are two publishers."""
    for _ in range(2):
        with Publisher(sidecar.publisher_url, publisher="job/7", first=5) as publisher:
            publisher.send_batch([[subject, "x"], [subject, "y"]])
            assert publisher.flush().accepted == 2
    assert cached(sidecar, subject) == ["x", "y"]
    with (
        Publisher(sidecar.publisher_url, publisher="job/7", first=2) as publisher,
        pytest.raises(RefusedMessage, match="out_of_order"),
    ):
        publisher.publish(subject, "older")
    for _ in range(2):
        with Publisher(sidecar.publisher_url, publisher="label") as publisher:
            publisher.publish(subject, "z")
    assert cached(sidecar, subject) == ["x", "y", "z", "z"]
    for options in ({"first": 1}, {"first": 0, "publisher": "x"}, {"publisher": "x" * 300}):
        with pytest.raises(ValueError, match="publisher"):
            Publisher(sidecar.publisher_url, **options)


def test_the_next_address_is_tried(sidecar: Sidecar, subject: str) -> None:
    for addresses in (f"127.0.0.1:1, {sidecar.publisher_url}", ["127.0.0.1:1", f"tcp://{sidecar.publisher_url}"]):
        with Publisher(addresses) as publisher:
            assert publisher.publish(subject, "x") > 0


def test_an_outage_that_lasts_is_an_error_and_what_was_sent_is_kept(sidecar: Sidecar, subject: str) -> None:
    publisher = Publisher(sidecar.publisher_url, retry_seconds=0.3)
    publisher.connect()
    sidecar.stop()
    with pytest.raises(PublishTimeout, match=r"127\.0\.0\.1") as caught:
        publisher.send_batch([[subject, "x"]])
    assert "0.3 s" in str(copy.copy(caught.value))
    sidecar.start()
    assert publisher.flush().accepted == 1
    publisher.close()


def test_until_the_rights_have_arrived_the_publisher_waits(rules_sidecar: Sidecar, subject: str) -> None:
    with Publisher(rules_sidecar.publisher_url, mint("spark", uid="5")) as publisher:
        publisher_ready = threading.Timer(0.2, load_rights, [rules_sidecar.control, rule(1, "user:5", "/a/**")])
        publisher_ready.start()
        publisher.send_batch([[subject, "x"]])
        assert publisher.flush().accepted == 1


def test_a_publisher_that_is_not_wanted_is_told(rules_sidecar: Sidecar) -> None:
    load_rights(rules_sidecar.control)
    for token, code in ((mint("spark", hours=-1), Close.TOKEN_EXPIRED), ("nonsense", Close.BAD_TOKEN)):
        with pytest.raises(ConnectionRejected) as caught:
            Publisher(rules_sidecar.publisher_url, token).connect()
        assert caught.value.code == code
        assert str(copy.copy(caught.value)) == str(caught.value)
    tokens = [mint("spark"), mint("spark", hours=-1)]
    publisher = Publisher(rules_sidecar.publisher_url, tokens.pop)
    publisher.connect()
    assert publisher.user == "spark"
    publisher.close()


def test_a_port_that_is_no_publisher_port(sidecar: Sidecar) -> None:
    with pytest.raises((ConnectionRejected, PublishTimeout)):
        Publisher(sidecar.client_url.removeprefix("ws://").removesuffix("/ws"), retry_seconds=0.3).connect()


@pytest.mark.parametrize("url", ["", "host", "host:", ":8801", "host:port", "ws://host:1", ",", []])
def test_an_address_that_is_none(url: str | list[str]) -> None:
    with pytest.raises(ValueError, match="address"):
        Publisher(url)


def test_over_tls(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    with Sidecar(mode="none", listen=f"publishers+tls://127.0.0.1:0?{certificate.options}") as sidecar:
        with Publisher(f"tls://{sidecar.publisher_url}", tls=certificate.trusting()) as publisher:
            publisher.send_batch([[A, "x" * 1000]] * 3000)
            assert publisher.flush().accepted == 3000
        with pytest.raises(PublishTimeout, match="certificate"):
            Publisher(f"tls://{sidecar.publisher_url}", retry_seconds=1).connect()


def test_several_publishers_on_one_subject_keep_each_its_order(sidecar: Sidecar, subject: str) -> None:
    def work(name: str) -> None:
        with Publisher(sidecar.publisher_url, publisher=name, window=2) as publisher:
            for number in range(100):
                publisher.send_batch([[subject, f"{name} {number}"]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    contents = cached(sidecar, subject)
    for name in "abcd":
        assert [text for text in contents if text.startswith(name)] == [f"{name} {number}" for number in range(100)]


def test_it_loads_neither_asyncio_nor_the_websocket_library() -> None:
    code = (
        "import sys, fastpath.client.publisher.publisher, fastpath.client.control.client\n"
        "print(sorted({'asyncio', 'uvloop', 'websockets', 'jwt', 'django'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_subscriber_gets_what_a_publisher_sends(sidecar: Sidecar, subject: str) -> None:
    async with connect(sidecar.client_url) as client:
        status, stream = client.status, client.subscribe(subject)
        async for change in status:
            if change.name == "subscribed":
                break
        with Publisher(sidecar.publisher_url) as publisher:
            publisher.publish(subject, "x", {"f": "1"}, reply_to="/r/r", closure="c-1", as_of=7)
        message = await anext(stream)
        assert (message.content, message.fields, message.reply_to, message.closure, message.as_of) == (
            "x", {"f": "1"}, "/r/r", "c-1", 7)  # fmt: skip
    with Control(sidecar.control) as control:
        until(lambda: control.stats()["publishers"] == 0)


def in_a_child(publish: Callable[[], object]) -> str:
    """What it came to in a process that was forked."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the child
        signal.alarm(10)
        try:
            said = str(publish())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(tell, said.encode())
        os._exit(0)
    os.close(tell)
    said = os.read(told, 1000).decode()
    os.close(told)
    os.waitpid(child, 0)
    return said


def test_processes_that_were_forked_number_for_themselves(sidecar: Sidecar, subject: str) -> None:
    """A publisher that was made before the fork is each process' own; one that was used there is that process'."""
    publisher = Publisher(sidecar.publisher_url)
    for number in (1, 2):
        assert in_a_child(lambda number=number: publisher.publish(subject, f"child {number}")) == str(number)  # type: ignore[misc]
    assert publisher.publish(subject, "parent") == 3
    assert in_a_child(lambda: publisher.publish(subject, "late")).startswith(
        "ClientError: this publisher was used before"
    )
    assert publisher.publish(subject, "parent") == 4
    publisher.close()
    assert cached(sidecar, subject) == ["child 1", "child 2", "parent", "parent"]


def test_clients_that_were_made_before_a_fork_number_for_themselves(sidecar: Sidecar, subject: str) -> None:
    """The same for the asynchronous client, which each process opens for itself."""
    client = connect(sidecar.client_url)

    async def publish(content: str) -> int:
        async with client:
            return (await client.publish(subject, content)).seq

    for number in (1, 2):
        assert in_a_child(lambda number=number: asyncio.run(publish(f"child {number}"))) == str(number)  # type: ignore[misc]
    assert cached(sidecar, subject) == ["child 1", "child 2"]


def test_what_replaces_leaves_no_field_of_before(sidecar: Sidecar, subject: str) -> None:
    with Publisher(sidecar.publisher_url) as publisher, Control(sidecar.control) as control:
        publisher.publish(subject, "1", {"a": "1"})
        publisher.publish(subject, "2", {"b": "2"}, replace=True)
        assert control.snapshot(subject)["message"]["fields"] == {"b": "2"}


def test_a_subject_is_removed(sidecar: Sidecar, subject: str) -> None:
    with Publisher(sidecar.publisher_url) as publisher, Control(sidecar.control) as control:
        first = publisher.publish(subject, "1", {"a": "1"})
        assert publisher.remove(subject, closure="c", as_of={"version": 3}) == first + 1
        answer = control.snapshot(subject)
        assert (answer["status"], answer["reason"]) == ("none", "the subject was removed")
        with pytest.raises(RefusedMessage, match="version 2"):
            publisher.remove(subject, as_of={"version": 2})
        publisher.send_batch([[subject, "2"], [subject, "", None, {"removed": True}], [subject, "3", {"b": "3"}]])
        publisher.flush()
        assert control.snapshot(subject)["message"]["fields"] == {"b": "3"}
        assert publisher.remove(subject, qos="standard") == 0
        assert control.snapshot(subject)["status"] == "none"
