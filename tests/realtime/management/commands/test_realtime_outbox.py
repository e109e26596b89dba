"""manage.py realtime_outbox: what is committed is stored once, in order, whatever is killed."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from realtime import publish
from realtime.management.commands.realtime_outbox import READY
from realtime.models import OutboxMessage, OutboxState
from tests.support.realtime.outbox_writer import count_until
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

COUNTERS = 8

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(tmp_path: Any) -> Iterator[Sidecar]:
    """A sidecar that outlives being killed, with room for all that the tests publish."""
    with Sidecar(mode="none", data=tmp_path, journal="interval", cache_messages=100_000, cache_seconds=3600) as sidecar:
        yield sidecar


def environment(node: Sidecar) -> dict[str, str]:
    """Of programs that use this process' test database and the sidecar."""
    return {
        "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
        "REALTIME_DATABASE": str(connection.settings_dict["NAME"]),
        "REALTIME_OUTBOX": "default",
        "FASTPATH_CONTROL": node.control,
    }


def sender(node: Sidecar) -> Program:
    """The command."""
    return Program([sys.executable, "-m", "django", "realtime_outbox"], environment(node), ready=re.escape(READY))


def stored(node: Sidecar, subject: str) -> list[str]:
    """The contents that the sidecar has of a subject, in order."""
    found: list[str] = []
    with Control(node.control) as control:
        before = 0
        while True:
            try:
                page = control.history(subject, before, 100)["messages"]
            except ControlRefused as error:
                assert error.code == "unknown", error
                return []
            found += [message["content"] for message in page]
            if len(page) < 100:
                return found[::-1]
            before = page[-1]["seq"]


def empty() -> bool:
    """Whether nothing waits."""
    return not OutboxMessage.objects.exists()


def test_without_an_outbox_it_says_so(settings: Any) -> None:
    with pytest.raises(CommandError, match=r"OUTBOX.*is not set"):
        call_command("realtime_outbox")
    settings.REALTIME = settings.REALTIME | {"OUTBOX": "elsewhere"}
    with pytest.raises(CommandError, match="'elsewhere'"):
        call_command("realtime_outbox")


def test_it_sends_until_it_is_told_to_stop(node: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True}
    publish("/orders/42", "before")
    with sender(node) as program:
        until(empty)
        publish("/orders/42", "after")
        until(empty)
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(PATIENCE_SECONDS) == 0
    assert stored(node, "/orders/42") == ["before", "after"]
    assert OutboxState.objects.get().holder == ""


class Killed:
    """Two senders, of which one sends, and some writers; any may be killed, and is started again."""

    def __init__(self, node: Sidecar, seed: str, writers: int, stack: ExitStack) -> None:
        self._node = node
        self._seed = seed
        self._stack = stack
        self._programs: dict[str, Program] = {}
        self.writers = [f"writer {number}" for number in range(writers)]
        names = ["sender 0", "sender 1", *self.writers]
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(self.start, names))

    def start(self, name: str) -> None:
        """Start it and wait until it is ready."""
        module = ["-m", "tests.support.realtime.outbox_writer", f"{self._seed} {name} {time.monotonic()}"]
        program = (
            sender(self._node)
            if name.startswith("sender")
            else Program([sys.executable, *module, str(COUNTERS)], environment(self._node), "counting")
        )
        self._programs[name] = self._stack.enter_context(program)

    def kill(self, name: str) -> None:
        """As at a crash."""
        process = self._programs[name].process
        process.kill()
        process.wait()

    def leader(self) -> str:
        """The sender that sends, by its process' number in the row; the first when it has not begun yet."""
        pid = OutboxState.objects.get().holder.split(" ")[1:2]
        return "sender 1" if pid == [str(self._programs["sender 1"].process.pid)] else "sender 0"


@contextmanager
def counting(seed: str) -> Iterator[None]:
    """A writer in a thread of this process."""
    end = threading.Event()

    def run() -> None:
        try:
            count_until(end.is_set, COUNTERS, random.Random(seed))
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(3 * PATIENCE_SECONDS)


def killed_at_random(node: Sidecar, kills: int, seed: str, writers: int) -> None:
    """Senders, writers and the sidecar are killed at any moment; then what is stored is compared with the counters."""
    chance = random.Random(seed)
    Group.objects.bulk_create(Group(pk=number, name=f"{number}:0") for number in range(1, COUNTERS + 1))
    with ExitStack() as stack:
        running = Killed(node, seed, writers, stack)
        until(OutboxState.objects.exists, 30)  # the first sender to begin makes it
        with counting(seed):
            for step in range(kills):
                enough = OutboxState.objects.get().sent + chance.randint(1, 50)
                until(lambda enough=enough: OutboxState.objects.get().sent >= enough, 30)  # type: ignore[misc]
                if step % 2:
                    node.kill()
                    node.start()
                else:
                    name = chance.choice([running.leader(), running.leader(), *running.writers])
                    until(lambda: OutboxState.objects.get().pending, 30)  # what is on its way may be stored already
                    running.kill(name)
                    running.start(name)
        for name in running.writers:
            running.kill(name)
        until(empty, 30)
    counts = {group.pk: int(group.name.partition(":")[2]) for group in Group.objects.all()}
    for number, count in counts.items():
        assert stored(node, f"/counters/{number}") == [str(one) for one in range(1, count + 1)], f"seed {seed}"
    assert sum(counts.values()) > kills


def test_what_is_committed_is_stored_once_and_in_order(node: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": node.control}
    killed_at_random(node, 3, f"short {random.random()}", 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_so_it_is_after_many_kills(node: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": node.control}
    killed_at_random(node, 30, f"long {random.random()}", 2)
