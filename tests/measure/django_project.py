"""The scenarios of tests/measure/following.py: a process with a project of Django and a database for them alone."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import django
from django.test.utils import setup_databases, setup_test_environment, teardown_databases

django.setup()
setup_test_environment()

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings

from entitlement import conf, tokens
from entitlement.following import compiler, triggers
from entitlement.models import Rule
from entitlement.passwords import PasswordChecks
from fastpath.client.control.client import Control
from realtime import apublish
from realtime.hooks import recheck as ask_again
from realtime.nodes.asking import ask_each
from realtime.nodes.control_sockets import control
from realtime.process import hook_runner
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.edge.wire import WireClient
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.entitlement.watched import SUBJECT
from tests.support.realtime.deciding import Deciding
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

Scenario = Callable[[], Iterator[float]]
WORKERS = 2
"""Of a node with rules: what ends has to end on each."""


def configured(**more: Any) -> Any:
    """The project's settings with others of the nodes."""
    return override_settings(
        REALTIME=settings.REALTIME | more, PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]
    )


@contextmanager
def silent() -> Iterator[str]:
    """A control socket that takes what it is asked and never answers."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = str(Path(folder) / "silent.sock")
        listening.bind(path)
        listening.listen(64)
        yield path


@contextmanager
def followed(**options: Any) -> Iterator[Sidecar]:
    """A node that trusts this project's tokens, and whose rights an agent follows."""
    with (
        Sidecar(mode="rules", token_secret=conf.token_secret(), **options) as sidecar,
        configured(CONTROL=sidecar.control),
        RunningAgent(sidecar.control),
    ):
        yield sidecar


def sync(sidecar: Sidecar) -> None:
    """Wait until the sidecar has what the database has."""
    with Control(sidecar.control) as asking:
        until(lambda: asking.hello().get("generation") == compiler.position().generation)


@contextmanager
def everywhere(sidecar: Sidecar, token: str) -> Iterator[list[Viewer]]:
    """A viewer with this token on each worker, who reads the subject."""
    with ExitStack() as stack:
        by_server: dict[str, Viewer] = {}
        while len(by_server) < WORKERS:
            viewer = stack.enter_context(Viewer(sidecar.client_url, token))
            by_server.setdefault(viewer.server, viewer)
        for viewer in by_server.values():
            assert viewer.subscribe(SUBJECT) == ""
        yield list(by_server.values())


def _password(user: User) -> None:
    user.set_password("another")
    user.save()


WAYS: dict[str, Callable[[User, str, Group], object]] = {
    "signed out": lambda user, token, group: Session.objects.all().delete(),
    "deactivated": lambda user, token, group: User.objects.filter(pk=user.pk).update(is_active=False),
    "deleted": lambda user, token, group: user.delete(),
    "token revoked": lambda user, token, group: tokens.revoke(token),
    "password": lambda user, token, group: _password(user),
    "left the group": lambda user, token, group: group.user_set.remove(user),
    "group deleted": lambda user, token, group: group.delete(),
    "rule denied": lambda user, token, group: Rule.objects.filter(group=group).update(effect="deny"),
}
EMPTIES = ("entitlement_rule", "auth_user_groups", "django_session")
"""Tables that may be emptied by themselves."""


def revoked() -> Iterator[float]:
    """In each way after the other; the slowest of all."""
    with followed(workers=WORKERS) as sidecar:
        yield from _ways(sidecar, WAYS)


def without_triggers() -> Iterator[float]:
    """The same, and nothing notes what changes."""
    with followed(workers=WORKERS) as sidecar:
        # The agent brings them back: each way begins without them anew.
        yield from _ways(sidecar, WAYS, lambda: _remove_triggers(sidecar))


def _remove_triggers(sidecar: Sidecar) -> None:
    triggers.remove(connection)
    with Control(sidecar.control) as asking:
        until(lambda: asking.stats()["triggers_missing"])


def truncated() -> Iterator[float]:
    """By the command that deletes no row."""

    def empty(table: str) -> Callable[[User, str, Group], object]:
        def run(user: User, token: str, group: Group) -> None:
            with connection.cursor() as cursor:
                if connection.vendor == "mysql":
                    cursor.execute("SET foreign_key_checks = 0")
                cursor.execute(f"TRUNCATE TABLE {table}")
                if connection.vendor == "mysql":
                    cursor.execute("SET foreign_key_checks = 1")

        return run

    with followed(workers=WORKERS) as sidecar:
        yield from _ways(sidecar, {table: empty(table) for table in EMPTIES})


def _ways(
    sidecar: Sidecar, ways: dict[str, Callable[[User, str, Group], object]], before: Callable[[], object] = bool
) -> Iterator[float]:
    for number in count():
        took = {}
        for way, change in ways.items():
            if triggers.missing(connection):
                triggers.install(connection)
            group = Group.objects.create(name=f"{way} {number}")
            Rule.objects.create(group=group, pattern=SUBJECT)
            user = User.objects.create_user(f"{way} {number}", password="demo")
            user.groups.add(group)
            session = SessionStore()
            session.create()
            sync(sidecar)
            token = tokens.mint(user, session)[0]
            with everywhere(sidecar, token) as viewers:
                before()
                began = time.monotonic()
                change(user, token, group)
                for viewer in viewers:
                    viewer.revoked(SUBJECT)
                took[way] = time.monotonic() - began
            Session.objects.all().delete()
            User.objects.all().delete()
            Group.objects.all().delete()
            sync(sidecar)
        slowest = max(took, key=lambda way: took[way])
        print("slowest:", slowest, file=sys.stderr)
        yield took[slowest]


def password() -> Iterator[float]:
    """Of a client of MQTT, by its password."""
    stop = threading.Event()
    with followed(listen=LISTEN) as node:
        PasswordChecks(stop).start([node.control])
        try:
            for number in count():
                user = User.objects.create_user(f"bob{number}", password="demo")
                Rule.objects.create(user=user, pattern="/stocks/**")
                sync(node)
                with mqtt(node, "b", user=user.username, password=b"demo") as one:
                    began = time.monotonic()
                    _password(user)
                    one.ended()
                    yield time.monotonic() - began
        finally:
            stop.set()


@contextmanager
def deciding() -> Iterator[tuple[Sidecar, Deciding]]:
    """A node that asks the project's hook, and the hook, in this process."""
    hook_class = "tests.support.realtime.deciding.Deciding"
    with (
        Sidecar(mode="custom", hook_seconds=30) as custom,
        configured(CONTROL=custom.control, LISTEN=custom.settings["listen"], HOOK=hook_class),
    ):
        hook, stop = hook_runner.load(), threading.Event()
        assert isinstance(hook, Deciding)
        threads = hook_runner.start(hook, [custom.control], stop)
        try:
            yield custom, hook
        finally:
            stop.set()
            hook.release.set()
            for thread in threads:
                thread.join()


def recheck() -> Iterator[float]:
    """A room is closed."""
    with deciding() as (custom, hook), WireClient(custom) as client:
        client.ask("connect", "connected", token="ann")
        for number in count():
            room = f"/room/{number}"
            client.subscribe(room)
            client.answer("subscribed")
            hook.closed_rooms.add(room)
            began = time.monotonic()
            ask_again("ann")
            client.answer("revoked")
            yield time.monotonic() - began


def hooks() -> Iterator[float]:
    """Forty questions sleep."""
    with deciding() as (custom, hook), ExitStack() as stack:
        for number in range(40):
            slow = stack.enter_context(WireClient(custom))
            slow.ask("connect", "connected", token="slow")
            slow.say("subscribe", subjects=[f"/{number}/sleep"])
        until(lambda: any(subject.endswith("/sleep") for _, _, subject in hook.asked))
        ann = stack.enter_context(WireClient(custom))
        ann.ask("connect", "connected", token="ann")
        for turn in count():
            took = []
            for number in range(50):
                began = time.monotonic()
                ann.subscribe(f"/busy/{turn}/{number}")
                ann.answer("subscribed")
                took.append(time.monotonic() - began)
            yield median(took)


def listed() -> list[str]:
    """The addresses that a visitor is told."""
    response = Client().get("/api/servers/", headers={"host": "localhost:8000"})
    return [server["url"] for server in json.loads(response.content)["servers"]]


def pages() -> Iterator[float]:
    """Of two nodes one keeps silent."""
    with Sidecar() as one, silent() as path:
        servers = [{"url": "ws://one/ws", "control": one.control}, {"url": "ws://silent/ws", "control": path}]
        with configured(CONTROL=[path, one.control], SERVERS=servers), control():
            until(lambda: listed() == ["ws://one/ws"])
            while True:
                began = time.monotonic()
                for _ in range(10):
                    listed()
                yield time.monotonic() - began


def server_list() -> Iterator[float]:
    """Drained, then killed: the slower one."""
    while True:
        with Sidecar() as one, Sidecar() as other:
            servers = [
                {"url": "ws://one/ws", "control": one.control},
                {"url": "ws://other/ws", "control": other.control},
            ]
            with configured(CONTROL=[one.control, other.control], SERVERS=servers), control():
                until(lambda: len(listed()) == 2)
                with Control(one.control) as asking:
                    began = time.monotonic()
                    asking.drain()
                    until(lambda: listed() == ["ws://other/ws"])
                    drained = time.monotonic() - began
                    asking.undrain()
                until(lambda: len(listed()) == 2)
                began = time.monotonic()
                other.kill()
                until(lambda: listed() == ["ws://one/ws"])
                yield max(drained, time.monotonic() - began)


def publish() -> Iterator[float]:
    """A node takes what it is given, and says nothing."""

    async def ten() -> None:
        await asyncio.gather(*(apublish("/late/a", "x") for _ in range(10)), return_exceptions=True)

    while True:
        with silent() as path, configured(CONTROL=path, PUBLISH_SECONDS=0.5):
            began = time.monotonic()
            asyncio.run(ten())
            yield time.monotonic() - began


def asked_together() -> Iterator[float]:
    """Two of three hang."""
    with silent() as path, Sidecar() as sidecar:
        while True:
            began = time.monotonic()
            ask_each([path, sidecar.control, path], Control.hello, seconds=2)
            yield time.monotonic() - began


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        revoked, without_triggers, truncated, password, recheck, hooks, pages, server_list, publish, asked_together
    )
}  # fmt: skip


def main() -> None:
    """A value for each line of the standard input."""
    databases = setup_databases(verbosity=0, interactive=False)
    call_command("migrate", verbosity=0)
    values = SCENARIOS[sys.argv[1]]()
    try:
        for _ in sys.stdin:
            print("took", next(values), flush=True)
        values.close()  # type: ignore[attr-defined]
    finally:
        connection.close()
        teardown_databases(databases, verbosity=0)


if __name__ == "__main__":
    main()
