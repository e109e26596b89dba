"""publish() and transactions: which one it waits for, what leaves together, and what becomes of failures."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction
from django.db.models.signals import post_save
from django.db.transaction import TransactionManagementError
from django.test import TestCase

from fastpath.client.errors import SidecarUnavailable
from realtime import PublishRefused, apublish, apublish_many, publish
from realtime.export.exposition import lines
from realtime.nodes.control_sockets import control
from realtime.publishing import commit_hook
from realtime.publishing.failures import failures
from tests.support.sidecar import Sidecar
from tests.support.tap import tapped

NUMBERS = count()

pytestmark = pytest.mark.django_db(transaction=True)


def stored(subject: str) -> list[str]:
    """What was published there, in order."""
    [node] = control().controls
    try:
        messages = node.history(subject, limit=100)["messages"]
    except Exception as error:
        assert getattr(error, "code", "") == "unknown", error
        return []
    return [message["content"] for message in reversed(messages)]


@pytest.fixture
def subject() -> str:
    """One that no other test has."""
    return f"/stocks/{next(NUMBERS)}"


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests here."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.fixture
def node(sidecar: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """A sidecar without rights to ask for."""
    if sidecar.process is None:  # a test has ended it
        sidecar.start()
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        yield sidecar


@pytest.fixture
def other(transactional_db: None, tmp_path: Path) -> Iterator[str]:
    """A second database."""
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.sqlite3"), "OPTIONS": {}}
    connections.settings["other"] = connections.settings["default"] | sqlite
    connections["other"].connect()  # Django's test case lets no other alias than its own be opened later
    yield "other"
    connections["other"].close()
    del connections["other"]
    del connections.settings["other"]


def test_a_transaction_of_another_database_is_waited_for(node: Sidecar, other: str, subject: str) -> None:
    """It is found, a rollback takes the message back, and so it is when it is named."""
    for using in (None, other):
        with transaction.atomic(using=other):
            assert publish(subject, "kept", using=using) is None
            assert "kept" not in stored(subject)[-1:]
        assert stored(subject)[-1] == "kept"
        with transaction.atomic(using=other):
            publish(subject, "rolled back", using=using)
            transaction.set_rollback(True, using=other)
        publish(subject, "at once", using=using)
    assert stored(subject) == ["kept", "at once"] * 2


def test_of_two_open_transactions_one_has_to_be_named(node: Sidecar, other: str, subject: str) -> None:
    with transaction.atomic(), transaction.atomic(using=other):
        with pytest.raises(TransactionManagementError, match=r'"default" and "other".*using="default"'):
            publish(subject, "of which")
        publish(subject, "first", using="default")
        publish(subject, "second", using="other")
        transaction.set_rollback(True, using=other)
    assert stored(subject) == ["first"]
    with transaction.atomic():
        assert publish(subject, "at once", using=other) is not None
    assert stored(subject) == ["first", "at once"]


def test_without_autocommit_it_is_refused_like_on_commit(node: Sidecar, subject: str) -> None:
    """Nobody would tell of the commit; inside of atomic() Django does."""
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError, match=r"autocommit is off.*atomic"):
            publish(subject, "too early")
        with transaction.atomic():
            User.objects.create(username="ann")
            publish(subject, "rolled back")
        transaction.rollback()
        with transaction.atomic():
            publish(subject, "kept")
        transaction.commit()
        assert stored(subject) == []
        transaction.set_autocommit(True)  # then Django calls what waits for the commit
        assert stored(subject) == ["kept"]
    finally:
        if not transaction.get_autocommit():
            transaction.rollback()
            transaction.set_autocommit(True)


@pytest.fixture
def manual(other: str) -> Iterator[str]:
    """The second database again, under an alias whose settings have autocommit off; nothing is connected."""
    connections.settings["manual"] = connections.settings[other] | {"AUTOCOMMIT": False}
    yield "manual"
    connections["manual"].close()
    del connections["manual"]
    del connections.settings["manual"]


def test_an_alias_without_autocommit_counts_while_it_has_a_transaction(
    node: Sidecar, manual: str, subject: str
) -> None:
    """Not before it is used, nor between its transactions; one that is named is as on_commit() has it."""
    for connected in (False, True):
        if connected:
            connections[manual].connect()
        assert publish(subject, "at once") is not None
        with transaction.atomic():
            assert publish(subject, "after the commit") is None
            assert publish(subject, "after it as well", using="default") is None
            assert "after" not in stored(subject)[-1]
        with transaction.atomic():
            publish(subject, "rolled back")
            transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError, match=r'"manual" while its autocommit is off'):
            publish(subject, "of the one that is named", using=manual)
    with connections[manual].cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS thing (id int)")
        cursor.execute("INSERT INTO thing VALUES (1)")
    with pytest.raises(TransactionManagementError, match=r'"manual" while its autocommit is off'):
        publish(subject, "before the commit")
    with transaction.atomic(), pytest.raises(TransactionManagementError, match=r"say whose commit"):
        publish(subject, "of which")
    transaction.rollback(using=manual)
    assert publish(subject, "at once") is not None
    with transaction.atomic(using=manual):
        assert publish(subject, "of a block") is None
    assert stored(subject) == ["at once", "after the commit", "after it as well"] * 2 + ["at once"]


def test_an_alias_that_cannot_be_used_is_not_looked_at(node: Sidecar, other: str, subject: str) -> None:
    """Its driver may be on other machines alone."""
    connections.settings["absent"] = connections.settings[other] | {"ENGINE": "nowhere.to.be.found"}
    try:
        assert publish(subject, "at once") is not None
        with transaction.atomic():
            publish(subject, "after the commit")
    finally:
        del connections.settings["absent"]
    assert stored(subject) == ["at once", "after the commit"]


def test_a_test_case_of_two_databases_is_not_ambiguous(node: Sidecar, other: str, subject: str) -> None:
    """Its own transactions are not those of the code under test."""
    entered = [transaction.atomic(using=one) for one in ("default", other)]
    for block in entered:
        block._from_testcase = True
        block.__enter__()
    try:
        assert publish(subject, "of the test") is None
        with transaction.atomic(using=other):
            publish(subject, "of the code")
        assert len(connections["default"].run_on_commit) == len(connections[other].run_on_commit) == 1
        with TestCase.captureOnCommitCallbacks(using="default", execute=True):
            publish(subject, "captured", using="default")
        assert stored(subject) == ["captured"]
    finally:
        for block in reversed(entered):
            transaction.set_rollback(True, using=block.using)
            block.__exit__(None, None, None)
    assert stored(subject) == ["captured"]


def test_a_transaction_is_one_frame_and_asks_once(sidecar: Sidecar, settings: Any, tmp_path: Path) -> None:
    """In the order of the calls; what a savepoint took back is not in it."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "tap.sock")}
    with tapped(sidecar, tmp_path / "tap.sock") as asked, control():
        with transaction.atomic():
            for number in range(300):
                with transaction.atomic():
                    publish(f"/n/{number % 7}", str(number))
                    if number % 3 == 0:
                        transaction.set_rollback(True)
            publish("/n/0", "last but one")
            with transaction.atomic():
                publish("/n/0", "last", qos="standard", retained=False)
                transaction.set_rollback(True)
        assert [one for one in asked if one[0] == "publish"] == [("publish", 201)]
        # One for the transaction, one after each savepoint that left nothing.
        assert [verb for verb, _ in asked].count("hello") <= 2
        kept = [str(number) for number in range(0, 300, 7) if number % 3]
        assert stored("/n/0") == [*kept, "last but one"]


def test_nothing_is_kept_of_savepoints_that_were_taken_back(node: Sidecar, subject: str) -> None:
    """Else each call in a long transaction would look through all of them."""
    with transaction.atomic():
        publish(subject, "kept")
        for number in range(100):
            with transaction.atomic():
                publish(subject, str(number))
                publish(subject, str(number))
                transaction.set_rollback(True)
        waiting = commit_hook._waiting[connections["default"]]
        assert len(waiting._calls) <= 3
    assert stored(subject) == ["kept"]


def test_more_than_a_frame_takes_goes_in_several(sidecar: Sidecar, settings: Any, tmp_path: Path) -> None:
    """By their bytes, and by their number."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "tap.sock"), "PUBLISH_SECONDS": 30}
    with tapped(sidecar, tmp_path / "tap.sock") as asked, control():
        with transaction.atomic():
            for number in range(20):
                publish(f"/large/{number}", "x" * 1_000_000)
        assert sum(messages for _, messages in asked) == 20
        assert [verb for verb, _ in asked] == ["hello", "publish", "publish"]
        assert all(control().snapshot(f"/large/{number}")["status"] == "found" for number in range(20))
        del asked[:]
        with transaction.atomic():
            for number in range(10_001):
                publish("/many/1", str(number))
        assert asked == [("hello", 0), ("publish", 10_000), ("publish", 1)]


def test_what_fails_at_the_commit_is_logged_and_breaks_nobody(node: Sidecar, caplog: Any, subject: str) -> None:
    """The row is saved, later callbacks of other apps run, the failure is counted where Prometheus sees it."""
    ran: list[str] = []
    before = failures.total
    with caplog.at_level(logging.ERROR, "realtime.failures"), transaction.atomic():
        User.objects.create(username="ann")
        transaction.on_commit(lambda: ran.append("before"))
        publish(subject, "193")
        publish("/stocks/us/GE", "194")
        transaction.on_commit(lambda: ran.append("after"))
        node.kill()
    assert ran == ["before", "after"]
    assert User.objects.filter(username="ann").exists()
    [record] = caplog.records
    assert "2 of 2 messages not published after their transaction was committed" in record.getMessage()
    assert f"{subject}, /stocks/us/GE" in record.getMessage()
    assert failures.total == before + 2
    [sample] = [line for line in lines() if line.startswith("fastpath_publish_failures_total{")]
    assert sample.endswith(f" {before + 2}")


def test_what_nobody_expects_at_the_commit_breaks_nobody_either(
    node: Sidecar, settings: Any, caplog: Any, subject: str
) -> None:
    """Django logs it, as of any callback that is robust."""
    ran: list[str] = []
    with transaction.atomic():
        User.objects.create(username="ann")
        publish(subject, "193")
        transaction.on_commit(lambda: ran.append("after"))
        settings.REALTIME = settings.REALTIME | {"BACKEND": "none of them"}
    assert ran == ["after"]
    assert User.objects.filter(username="ann").exists()
    assert "not 'none of them'" in caplog.text


def test_it_is_raised_where_the_settings_say_so(node: Sidecar, settings: Any, subject: str) -> None:
    settings.REALTIME = settings.REALTIME | {"ON_FAILURE": "raise"}

    def order(name: str) -> None:
        with transaction.atomic():
            User.objects.create(username=name)
            publish(subject, name)
            node.kill()

    with pytest.raises(SidecarUnavailable):
        order("ann")
    assert User.objects.filter(username="ann").exists()
    with pytest.raises(SidecarUnavailable):
        order("bob")
    assert not User.objects.filter(username="bob").exists()


@pytest.mark.parametrize("given", ["log", None])
def test_by_default_it_is_only_logged_and_no_call_fails(
    node: Sidecar, settings: Any, caplog: Any, given: str | None, subject: str
) -> None:
    """A line for each call or transaction; but for what is wrong with the message itself."""
    settings.REALTIME = settings.REALTIME | {"ON_FAILURE": given}
    node.kill()
    assert publish(subject, "193") is None
    with transaction.atomic():
        User.objects.create(username="ann")
        publish(subject, "193")
    assert User.objects.filter(username="ann").exists()
    assert [record.name for record in caplog.records] == ["realtime.failures"] * 2
    with pytest.raises(PublishRefused):
        publish("no slash", "193")


ADVISED: dict[str, Callable[..., Awaitable[Any]]] = {
    "apublish": apublish,
    "sync_to_async": sync_to_async(publish),
    "in a task": lambda *args, **kwargs: asyncio.create_task(apublish(*args, **kwargs)),
    "in a task that knows nothing": lambda *args, **kwargs: asyncio.get_running_loop().create_task(
        apublish(*args, **kwargs), context=contextvars.Context()
    ),
    "many": lambda subject, content, **kwargs: apublish_many([(subject, content)], **kwargs),
}


@pytest.mark.parametrize("how", ADVISED)
def test_asynchronous_receivers_of_signals_wait_for_the_commit(node: Sidecar, how: str, subject: str) -> None:
    """Each way that the error advises, in a receiver that Django runs for synchronous code, several side by side."""

    async def saved(instance: User, using: str, **_: Any) -> None:
        assert await ADVISED[how](subject, instance.username, using=using) is None

    async def saved_too(instance: User, **_: Any) -> None:
        assert await ADVISED[how](subject, instance.username) is None

    def make(*names: str, rolled_back: bool) -> None:
        with transaction.atomic():
            for name in names:
                User.objects.create(username=name)
            assert "ann" not in stored(subject)
            transaction.set_rollback(rolled_back)

    with receiving(saved), receiving(saved_too):
        make("ann", rolled_back=True)
        assert stored(subject) == []
        make("ann", "bob", rolled_back=False)
        assert stored(subject) == ["ann", "ann", "bob", "bob"]


def test_asynchronous_receivers_under_an_asynchronous_view(node: Sidecar, subject: str) -> None:
    """The view's ORM runs in a thread, whose transaction the receivers wait for; of a view's own there is none."""

    async def saved(instance: User, **_: Any) -> None:
        told.append(await apublish(subject, instance.username))

    def pay(name: str) -> None:
        with transaction.atomic():
            User.objects.create(username=name)
            assert name not in stored(subject)

    async def view() -> None:
        await sync_to_async(pay)("ann")
        await User.objects.acreate(username="bob")
        await post_save.asend(User, instance=User(username="cid"), created=True, raw=False, using="default")

    told: list[Any] = []
    with receiving(saved):
        asyncio.run(view())
    assert stored(subject) == ["ann", "bob", "cid"]
    assert (told[0], told[2] is None) == (None, False)


@contextlib.contextmanager
def receiving(receiver: Callable[..., Any]) -> Iterator[None]:
    """The receiver is told of saved users."""
    post_save.connect(receiver, User)
    try:
        yield
    finally:
        post_save.disconnect(receiver, User)


def test_in_asynchronous_code_it_says_what_to_do(node: Sidecar, monkeypatch: Any, subject: str) -> None:
    """Instead of holding up the loop; as Django's own, who knows better may say so."""

    async def view() -> None:
        with pytest.raises(SynchronousOnlyOperation, match=r"`await apublish\(…\)`.*`await sync_to_async\(publish\)\("):
            publish(subject, "refused")
        assert await sync_to_async(publish)(subject, "in a thread") is not None
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        publish(subject, "allowed")

    asyncio.run(view())
    assert stored(subject) == ["in a thread", "allowed"]
