"""Many at once, asynchronous callers, threads, forks, deadlines: against a real sidecar."""

from __future__ import annotations

import asyncio
import copy
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import ImproperlyConfigured, SynchronousOnlyOperation
from django.db import connections, transaction

import realtime
from fastpath.client.errors import ControlRefused
from fastpath.engine.redis.writing import writer
from realtime import (
    MessageTooLarge,
    NotEncodable,
    Position,
    Publication,
    PublishFailed,
    PublishManyFailed,
    PublishRefused,
    ShuttingDown,
    SidecarUnavailable,
    apublish,
    apublish_many,
    conf,
    publish,
    publish_many,
)
from realtime.nodes.control_sockets import control
from realtime.publishing.failures import failures
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tap import tapped

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for all: each test has a subject of its own."""
    with Sidecar(mode="none", message_bytes_max=2000) as running:
        yield running


@pytest.fixture
def node(shared: Sidecar, settings: Any) -> Sidecar:
    """The settings name it."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": shared.control}
    return shared


@pytest.fixture
def away(settings: Any, tmp_path: Path) -> None:
    """No sidecar is there."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}


def stored(subject: str) -> list[dict[str, Any]]:
    """What was published there, in order."""
    [one] = control().controls
    found: list[dict[str, Any]] = []
    while not found or found[-1]["seq"] > 1:
        before = {"before": found[-1]["seq"]} if found else {}
        found += one.history(subject, limit=100, **before)["messages"]
    return found[::-1]


def test_many_leave_together_and_have_their_positions(node: Sidecar) -> None:
    """In each of the forms that a message may have."""
    positions = publish_many(
        [
            ("/many/a", "1"),
            ("/many/a", {"n": 2}, {"f": 3}),
            {"subject": "/many/b", "content": "x", "qos": "standard"},
            Publication("/many/a", b"3", retained=False, reply_to="/re/1", closure="c", as_of={"version": 4}),
        ]
    )
    assert positions is not None
    assert [one.seq for one in positions] == [1, 2, 0, 3]
    last = stored("/many/a")[-1]
    assert (last["reply_to"], last["closure"], last["as_of"]) == ("/re/1", "c", {"version": 4})
    assert publish_many([]) == []


def test_one_that_cannot_be_sent_holds_up_all(node: Sidecar) -> None:
    with pytest.raises(PublishRefused) as caught:
        publish_many([("/held/a", "1"), ("held", "2")])
    assert "message 1 of publish_many()" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="is a Publication, a tuple or a dict, not str"):
        publish_many(["/held/a"])  # type: ignore[list-item]
    with pytest.raises(PublishManyFailed) as several:
        publish_many([("/held/a", "1"), ("/held/a", "x" * 3000), ("/held/a", "2")])
    assert [type(one) for one in several.value.outcomes] == [Position, MessageTooLarge, Position]
    assert isinstance(several.value.__cause__, MessageTooLarge)
    assert "1 of 3" in str(several.value)
    with pytest.raises(MessageTooLarge), transaction.atomic():
        publish_many([("/held/a", "3"), ("/held/a", "x" * 3000)])
    assert [one["content"] for one in stored("/held/a")] == ["1", "2"]


def test_many_wait_for_the_commit_too(node: Sidecar) -> None:
    with transaction.atomic():
        assert publish_many([("/commit/a", "1"), ("/commit/a", "2")]) is None
    with transaction.atomic():
        publish_many([("/commit/a", "3")])
        transaction.set_rollback(True)
    assert [one["content"] for one in stored("/commit/a")] == ["1", "2"]


@pytest.mark.parametrize("in_transaction", [False, True], ids=["at once", "after the commit"])
def test_no_end_comes_without_its_beginning(settings: Any, tmp_path: Path, in_transaction: bool) -> None:
    """What the first frame of several could not store is followed by none; what is refused for good holds up none."""
    heard: list[Any] = []

    def hear(subject: str, error: PublishFailed, **_: Any) -> None:
        heard.append((subject, error))

    with Sidecar(mode="none", subjects_max=50) as full, tapped(full, tmp_path / "tap.sock") as asked:
        settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "tap.sock")}
        publish("/full/a", "x")
        publish_many([(f"/full/{number}", "x") for number in range(50)])
        with pytest.raises(PublishManyFailed, match="holds 50 subjects"):  # those of one call are counted behind it
            publish_many([("/full/more", "x")] * 2)
        del asked[:]
        told = [("/full/new", "not stored"), *(("/full/a", "same frame") for _ in range(9999))]
        realtime.publish_failed.connect(hear)
        if in_transaction:
            with transaction.atomic():
                publish_many([*told, ("/full/a", "next frame"), ("/full/a", "next frame")])
        else:
            with pytest.raises(PublishManyFailed) as caught:
                publish_many([*told, ("/full/a", "next frame"), ("/full/a", "next frame")])
            assert all(isinstance(one, Position) for one in caught.value.outcomes[1:10_000])
        realtime.publish_failed.disconnect(hear)
        assert [subject for subject, _ in heard] == ["/full/new", "/full/a", "/full/a"]
        assert all(type(error) is PublishFailed and error.code == "failed" for _, error in heard)
        assert "not sent" in str(heard[-1][1])
        assert "/full/new" in str(heard[-1][1])
        assert [count for verb, count in asked if verb == "publish"] == [10_000]
        with pytest.raises(PublishManyFailed) as several:
            publish_many([("/full/a", "x" * (1 << 20) + "x"), *told[1:], ("/full/a", "the end")])
        assert [type(one) for one in several.value.outcomes[:2]] == [MessageTooLarge, Position]
        assert newest("/full/a") == "the end"


def newest(subject: str) -> Any:
    """The newest content of the subject."""
    [one] = control().controls
    return one.history(subject, limit=1)["messages"][0]["content"]


def test_a_wrong_reply_subject_is_refused(node: Sidecar) -> None:
    ns = 1_795_883_791_704_842_422
    halves = ({"as_of": {"job": "\ud83c"}}, {"as_of": "\ud83c"})
    for wrong in ({"reply_to": "nowhere"}, {"as_of": 1.5}, {"as_of": ns}, *halves, {"closure": "x" * 600}):
        with pytest.raises(PublishRefused, match=next(iter(wrong))):
            publish("/wrong/a", "x", **wrong)  # type: ignore[arg-type]


def test_silently_it_is_logged_and_counted(away: None) -> None:
    """Wherever it fails; what can never be sent is raised all the same."""
    before = failures.total
    assert publish("/silent/a", "x", fail_silently=True) is None
    assert publish_many([("/silent/a", "x")] * 2, fail_silently=True) is None
    assert async_to_sync(apublish)("/silent/a", "x", fail_silently=True) is None
    with transaction.atomic():
        publish("/silent/a", "x", fail_silently=True)
    assert failures.total == before + 5
    with transaction.atomic():
        publish("/silent/a", "x", fail_silently=True)
        with pytest.raises(SidecarUnavailable):
            publish("/silent/a", "not silently")
        transaction.set_rollback(True)
    assert failures.total == before + 5
    with pytest.raises(PublishRefused):
        publish("silent", "x", fail_silently=True)
    with pytest.raises(SidecarUnavailable):
        publish("/silent/a", "x")


async def test_asynchronous_code_publishes_without_its_thread(node: Sidecar) -> None:
    """A hundred at a time, in the order of the calls of each."""
    with pytest.raises(SynchronousOnlyOperation, match="await apublish"):
        publish("/async/a", "x")
    with pytest.raises(SynchronousOnlyOperation, match="await apublish_many"):
        publish_many([("/async/a", "x")])
    positions = await asyncio.gather(*(apublish("/async/a", str(number)) for number in range(100)))
    assert sorted(one.seq for one in positions if one) == list(range(1, 101))
    many = await apublish_many([("/async/b", "1"), ("/async/b", {"n": 2})])
    assert many is not None
    assert [one.seq for one in many] == [1, 2]
    assert await apublish_many([]) == []
    with pytest.raises(NotEncodable):
        await apublish("/async/a", object())  # type: ignore[arg-type]


def test_each_loop_of_a_process_may_publish(node: Sidecar) -> None:
    """One that is closed leaves nothing behind that the next one trips over."""
    for number in (1, 2, 3):
        position = asyncio.run(apublish("/loops/a", str(number)))
        assert position is not None
        assert position.seq == number


def test_under_async_to_sync_it_waits_for_the_callers_commit(node: Sidecar) -> None:
    """The transaction is that of the thread which waits."""

    async def deep() -> None:
        assert await apublish("/under/a", "of the transaction") is None
        await sync_to_async(publish)("/under/a", "too")

    with transaction.atomic():
        async_to_sync(deep)()
        with pytest.raises(ControlRefused, match="unknown"):
            stored("/under/a")
    assert [one["content"] for one in stored("/under/a")] == ["of the transaction", "too"]


async def test_a_silent_sidecar_takes_no_longer_than_was_said(settings: Any, tmp_path: Path) -> None:
    """Of a whole call, whoever it waits behind."""
    path = str(tmp_path / "silent.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        settings.REALTIME = settings.REALTIME | {"CONTROL": path, "PUBLISH_SECONDS": 0.5}
        outcomes = await asyncio.gather(*(apublish("/late/a", "x") for _ in range(10)), return_exceptions=True)
        assert all(isinstance(one, SidecarUnavailable) for one in outcomes)


def test_by_default_a_call_waits_for_a_node_that_waits_for_redis() -> None:
    """Else nobody would ever be told that a message may come all the same."""
    attempt = writer.STORE_SECONDS + writer.WAIT_MS / 1000
    assert writer.UNAVAILABLE_SECONDS + 2 * attempt <= conf.CONTROL_SECONDS


def test_a_wrong_deadline_is_an_error(settings: Any) -> None:
    for wrong in (0, -1, "5", True, 301):
        settings.REALTIME = settings.REALTIME | {"PUBLISH_SECONDS": wrong}
        with pytest.raises(ImproperlyConfigured, match="PUBLISH_SECONDS"):
            publish("/late/a", "x")


def test_fifty_threads_share_one_connection(node: Sidecar) -> None:
    """Each has its own transactions, some of which are rolled back."""

    def work(number: int) -> None:
        try:
            for turn in range(10):
                with transaction.atomic():
                    publish("/threads/a", f"{number}.{turn}")
                    transaction.set_rollback(turn % 2 == 1)
                publish(f"/threads/own{number}", str(turn))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(work, range(50)))
    kept = [one["content"] for one in stored("/threads/a")]
    assert sorted(kept) == sorted(f"{number}.{turn}" for number in range(50) for turn in range(0, 10, 2))
    assert [one["content"] for one in stored("/threads/own7")] == [str(turn) for turn in range(10)]


def test_processes_that_were_forked_publish_for_themselves(node: Sidecar) -> None:
    """As gunicorn's workers, where the parent has published, another thread of it is publishing, and asynchronously."""
    publish("/forked/a", "parent")
    asyncio.run(apublish("/forked/a", "parent"))
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            publish("/forked/busy", "x", qos="standard")

    busy = threading.Thread(target=go_on)
    busy.start()
    children = []
    try:
        for number in range(4):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for turn in range(10):
                        publish("/forked/a", f"{number}.{turn}")
                    asyncio.run(apublish("/forked/a", f"{number}.async"))
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
    finally:
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        over.set()
        busy.join()
    assert codes == [0] * 4
    publish("/forked/a", "parent")
    contents = [one["content"] for one in stored("/forked/a")]
    assert len(contents) == 3 + 4 * 11
    for number in range(4):
        own = [content for content in contents if content.startswith(f"{number}.")]
        assert own == [*(f"{number}.{turn}" for turn in range(10)), f"{number}.async"]


SHUTDOWN = """
import asyncio, atexit, os, threading
os.environ["DJANGO_SETTINGS_MODULE"] = "realtime.settings"
import django
django.setup()
from realtime import ShuttingDown, apublish, publish

def at_the_end():
    print(publish("/end/a", "sync").seq, flush=True)
    try:
        asyncio.run(apublish("/end/a", "async"))
    except ShuttingDown as error:
        print(error.code, flush=True)

atexit.register(at_the_end)
print(publish("/end/a", "before").seq, flush=True)
"""


def test_while_the_process_ends(node: Sidecar, tmp_path: Path) -> None:
    """What needs no new thread is sent; the rest has a named error."""
    done = subprocess.run(
        [sys.executable, "-c", SHUTDOWN],
        cwd=ROOT,
        env=os.environ | {"FASTPATH_CONTROL": node.control, "REALTIME_VAR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["1", "2", "shutdown"], done.stderr


def test_every_error_can_be_pickled() -> None:
    """So that a task's result may be one."""
    errors = [
        NotEncodable("why", "/a/b"),
        ShuttingDown("why", "/a/b"),
        MessageTooLarge("too_large", "why", "/a/b"),
        PublishFailed("failed", "why", "/a/b"),
        PublishManyFailed([Position(1, 2), PublishFailed("failed", "why", "/a/b")]),
    ]
    for error in errors:
        again = copy.copy(error)  # by what pickle goes by
        assert (type(again), str(again)) == (type(error), str(error))


def test_every_public_name_is_there() -> None:
    for name in realtime.__all__:
        assert getattr(realtime, name) is not None
    with pytest.raises(AttributeError):
        realtime.publsh  # noqa: B018
