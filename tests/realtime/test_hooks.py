"""A project's hook, run as realtime_hooks runs it, against a real sidecar (docs/develop/hooks.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from fastpath.client.errors import ClientError
from realtime import checks, hooks
from realtime.hooks import Hook, allow, deny, recheck
from realtime.process import hook_runner
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.guide import one
from tests.support.processes import descendants
from tests.support.realtime.deciding import Deciding, Members
from tests.support.realtime.everything import Everything, environment
from tests.support.realtime.server import ROOT
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def custom() -> Iterator[Sidecar]:
    """Mode ``custom``."""
    with Sidecar(mode="custom", hook_seconds=3) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def deciding(custom: Sidecar, settings: Any) -> Iterator[Deciding]:
    """The hook answers, in this process."""
    settings.REALTIME = settings.REALTIME | {
        "CONTROL": custom.control,
        "LISTEN": custom.settings["listen"],
        "HOOK": "tests.support.realtime.deciding.Deciding",
    }
    hook, stop = hook_runner.load(), threading.Event()
    assert isinstance(hook, Deciding)
    threads = hook_runner.start(hook, [custom.control], stop)
    try:
        yield hook
    finally:
        stop.set()
        hook.release.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)


def enter(custom: Sidecar, token: str) -> WireClient:
    """A client that has connected."""
    client = WireClient(custom)
    client.ask("connect", "connected", token=token)
    return client


def test_what_a_hook_can_answer(custom: Sidecar, deciding: Deciding) -> None:
    with enter(custom, "ann") as client:
        assert client.answer("notice")["text"] == "hello from 127.0.0.1"
        deciding.closed_rooms.add("/room/closed")
        client.subscribe("/room/open", "/room/closed")
        results = client.answer("subscribed")["results"]
        assert [one.get("reason", "") for one in results] == ["", "the room is closed"]
        answer = client.ask("publish", "published", subject="/room/open", content="hi", closure="c")
        assert answer["status"] == "ok"
    until(lambda: deciding.gone == [("ann", 1006)])
    for token, code in (("banned", (4506, "closed_by_operator")), ("", (4503, "denied"))):
        with WireClient(custom) as client:
            client.say("connect", token=token)
            assert client.closed() == code
    with enter(custom, "reader") as client:
        answer = client.ask("publish", "published", subject="/room/open", content="hi", closure="c")
        assert (answer["status"], answer["reason"]) == ("denied", "you only read")
    with WirePublisher(custom, "feed") as publisher:
        assert publisher.publish(["/room/open", "1"])[0] > 0


def test_a_hook_decides_who_asks_and_who_answers(custom: Sidecar, deciding: Deciding) -> None:
    """The first request may have to be asked again, while the hook is asked about the responder."""
    deciding.closed_rooms.add("/room/closed")
    with enter(custom, "ann") as ann, enter(custom, "bob") as bob, enter(custom, "reader") as reader:
        bob.ask("respond", "responding", patterns=["/room/*"])
        denied = reader.ask("request", "response", subject="/room/open", content="")
        assert (denied["error"], denied["reason"], denied["own"]) == ("denied", "you only read", True)

        def failure(subject: str) -> str:
            answer = ann.ask("request", "response", subject=subject, content="", timeout=300)
            return str(answer["error"])

        until(lambda: failure("/room/open") == "timeout")
        assert bob.answer("asked")["user"] == "ann"
        until(lambda: failure("/room/closed") == "no_responders")


def test_a_raising_or_sleeping_hook_is_its_own_clients_matter(
    custom: Sidecar, deciding: Deciding, caplog: pytest.LogCaptureFixture
) -> None:
    """Denied for a while, or told to come again; who is well is answered as ever, while one user has all he may have
    at work."""
    with WireClient(custom) as crash:
        crash.say("connect", token="crash")
        assert crash.closed() == (4005, "not_ready")
    slow = [enter(custom, "slow") for _ in range(40)]
    with enter(custom, "ann") as ann:
        for number, client in enumerate(slow):
            client.say("subscribe", subjects=[f"/{number}/sleep"])
        until(lambda: sum(subject.endswith("/sleep") for _, _, subject in deciding.asked) == 2)
        for number in range(50):
            ann.say("subscribe", subjects=[f"/busy/{number}"])
            assert ann.answer("subscribed")["results"][0]["error"] == "not_ready"
            assert "error" not in ann.answer("subscribed")["results"][0]
        assert sum(subject.endswith("/sleep") for _, _, subject in deciding.asked) == 2, "a quarter of the threads"
        ann.subscribe("/busy/line\nfeed/raise", "/busy/nothing", "/busy/fine")
        results = ann.answer("subscribed")["results"]
        assert [one.get("error", "") for one in results] == ["denied", "denied", "denied"]
        assert {one["reason"] for one in results} == {"the hook failed"}, "what it answers is for all of them or none"
        assert r"'/busy/line\nfeed/raise'" in caplog.text
        answer = ann.ask("publish", "published", subject="/busy/sleep", content="1", closure="c")
        assert (answer["status"], answer["reason"]) == ("denied", "the hook has not answered in time")
    deciding.release.set()
    for number, client in enumerate(slow):
        assert client.answer("subscribed", None)["results"][0]["subject"] == f"/{number}/sleep"
        client.sock.close()


def test_the_example_of_the_page(custom: Sidecar, settings: Any, transactional_db: None) -> None:
    """docs/develop/hooks.md, as it stands there."""
    names: dict[str, Any] = {}
    exec(one("docs/develop/hooks.md", "python", "class Rooms(Hook)"), names)  # noqa: S102 - our own page
    User.objects.create_user("ann").groups.add(Group.objects.create(name="cooks"))
    settings.REALTIME = settings.REALTIME | {"CONTROL": custom.control}
    stop = threading.Event()
    threads = hook_runner.start(names["Rooms"](), [custom.control], stop)
    try:
        with enter(custom, "ann") as client:
            assert client.answer("notice")["text"] == "welcome, ann"
            client.subscribe("/room/cooks/today", "/room/guests/today")
            results = client.answer("subscribed")["results"]
            assert [one.get("reason", "") for one in results] == ["", "you are no member of guests"]
            for group, status in (("cooks", "ok"), ("guests", "denied")):
                subject = f"/room/{group}/today"
                assert client.ask("publish", "published", subject=subject, content="x", closure="c")["status"] == status
            assert client.ask("token", "renewed", token="ann")["user"] == "ann"
            assert client.ask("token", "error", token="bob")["reason"] == "no such user"
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)


def test_recheck(custom: Sidecar, deciding: Deciding, settings: Any) -> None:
    """At once, and an error when a node cannot be told."""
    with enter(custom, "ann") as client:
        client.subscribe("/room/one")
        client.answer("subscribed")
        deciding.closed_rooms.add("/room/one")
        recheck("ann")
        assert client.answer("revoked")["reason"] == "the room is closed"
        settings.REALTIME = settings.REALTIME | {"CONTROL": ["/nowhere.sock", custom.control]}
        deciding.closed_rooms.clear()
        with pytest.raises(ClientError, match="nowhere"):
            recheck()
        assert client.answer("subscribed")["results"][0]["subject"] == "/room/one"


def test_snapshots_over_http_wait_for_themselves(custom: Sidecar, deciding: Deciding) -> None:
    """One that the hook takes long for keeps no other waiting."""
    statuses: dict[str, int] = {}

    def get(subject: str) -> None:
        statuses[subject] = Client().get("/snapshot", {"subject": subject, "token": "web"}).status_code

    waiting = threading.Thread(target=get, args=("/http/sleep",))
    waiting.start()
    until(lambda: ("subscribe", "web", "/http/sleep") in deciding.asked)
    get("/http/none")
    assert statuses == {"/http/none": 404}
    deciding.release.set()
    waiting.join()
    assert statuses["/http/sleep"] == 404, "there is none"


class Said:
    """Where answers go."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def send(self, verb: str, arguments: dict[str, Any]) -> int:
        """Noted."""
        assert verb == "answer"
        self.answers.append(arguments)
        return 1


def test_what_nobody_waits_for_any_more_is_not_asked() -> None:
    hook, stop, said = Deciding(), threading.Event(), Said()
    runner = hook_runner.Runner(hook, stop)
    facts = {"event": "subscribe", "connection": "c", "kind": "client", "address": "", "user": "ann", "headers": {}}
    try:
        for number, seconds in ((1, -1), (2, 10)):
            content = facts | {"ask": number, "subjects": [f"/n/{number}"], "again": True}
            question = hook_runner.Question(said, "", content, time.monotonic() + seconds)  # type: ignore[arg-type]
            runner._turns._queues.setdefault("ann", deque()).append(question)
            runner._turns.put("bob", question)
        until(lambda: said.answers)
        assert {answer["ask"] for answer in said.answers} == {2}
        assert {subject for _, _, subject in hook.asked} == {"/n/2"}
    finally:
        stop.set()


def test_what_a_hook_decides_about() -> None:
    """The methods that it overrides; what is not is denied."""
    assert Deciding.events() == ["connect", "subscribe", "publish", "disconnect"]
    assert Members.events() == ["connect", "subscribe"]
    hook, request = Hook(), hooks.Request("connect", "c", "client", "", "", None, "", {}, False, "")
    answers = [hook.connect(request), hook.token(request), *hook.subscribe_many(request, ["/a/b"])]
    answers += hook.publish_many(request, ["/a/b"])
    assert [answer.allowed for answer in answers] == [False] * 4
    with pytest.raises(ValueError, match="seconds"):
        allow(seconds=-1)
    assert len(deny("x" * 5000).reason) == 1000
    for _ in range(20):
        request.notice("x" * 5000)
    assert [len(text) for text in request.notices] == [1000] * 8


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("tests.support.realtime.nowhere.Hook", "No module named 'tests.support.realtime.nowhere'"),
        ("tests.support.realtime.deciding.threading", "'module' object is not callable"),
        ("tests.support.realtime.server.Program", "missing 3 required"),
        ("django.http.HttpResponse", "is no subclass of realtime.hooks.Hook"),
        ("tests.support.realtime.deciding.Nothing", "overrides none of connect, subscribe"),
    ],
)
def test_a_hook_that_is_none(settings: Any, path: str, why: str) -> None:
    settings.REALTIME = settings.REALTIME | {"HOOK": path}
    with pytest.raises(ImproperlyConfigured, match=why):
        hook_runner.load()
    assert [message.id for message in checks.check_hook()] == ["realtime.E011"]
    with pytest.raises(CommandError, match=why):
        call_command("realtime_hooks")


def test_the_command_says_when_there_is_nothing_to_run(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"HOOK": None, "LISTENERS": []}
    assert not checks.check_hook()
    with pytest.raises(CommandError, match="nothing to run"):
        call_command("realtime_hooks")


def comes_in(url: str) -> bool:
    """Whether ann may connect."""
    with WireClient(url) as client:
        client.say("connect", token="ann")
        try:
            return bool(client.next()["user"] == "ann")
        except Ended as ended:
            assert ended.code == 4005
            return False


@pytest.mark.slow
def test_a_first_worker_that_dies(settings: Any) -> None:
    """What it was asking is asked again by the next one; clients of the others stay."""
    with Sidecar(mode="custom", workers=2, hook_seconds=1) as sidecar:
        settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
        hook, stop = Deciding(), threading.Event()
        threads = hook_runner.start(hook, [sidecar.control], stop)
        with spread(sidecar, 2, token="ann") as clients:
            [other] = clients.others
            other.subscribe("/w/sleep")
            until(lambda: ("subscribe", "ann", "/w/sleep") in hook.asked)
            kill_worker(sidecar, 0, 2)
            hook.release.set()
            assert other.answer("subscribed")["results"][0]["subject"] == "/w/sleep"
            with enter(sidecar, "bob") as newcomer:
                newcomer.subscribe("/w/open")
                newcomer.answer("subscribed")
            until(lambda: ("subscribe", "bob", "/w/open") in hook.asked)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)


@pytest.mark.slow
def test_runrealtime_starts_it_and_again(tmp_path: Path) -> None:
    """It asks the database, is restarted when it dies and by SIGHUP, and nobody who is connected notices."""
    base = environment(tmp_path)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=base, check=True)
    user = "from django.contrib.auth.models import User; User.objects.create_user('ann')"
    subprocess.run([sys.executable, "manage.py", "shell", "-c", user], cwd=ROOT, env=base, check=True)
    more = {"FASTPATH_MODE": "custom", "REALTIME_HOOK": "tests.support.realtime.deciding.Members"}
    with Everything(tmp_path, **more) as everything:
        with WireClient(everything.client_url) as client:
            assert client.ask("connect", "connected", token="ann")["user"] == "ann"
            client.subscribe("/own/ann/one", "/own/bob/one")
            results = client.answer("subscribed")["results"]
            assert [one.get("reason", "") for one in results] == ["", "not yours"]
            for number in (signal.SIGKILL, signal.SIGHUP):
                before = until(lambda: everything.pid("realtime_hooks"))
                assert before in descendants(everything.process.pid)
                os.kill(before if number == signal.SIGKILL else everything.process.pid, number)
                until(lambda gone=before: everything.pid("realtime_hooks") not in (None, gone), 20)
                until(lambda: comes_in(everything.client_url), 30)  # 4005 says to come again while it starts
            assert client.quiet()
        with WireClient(everything.client_url) as other:
            other.say("connect", token="bob")
            assert other.closed() == (4503, "denied")
    assert "Traceback" not in everything.output


@pytest.mark.slow
def test_mode_custom_without_a_hook_does_not_start(tmp_path: Path) -> None:
    base = environment(tmp_path)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=base, check=True)
    done = subprocess.run(
        [sys.executable, "manage.py", "runrealtime", "--port", "0"],
        cwd=ROOT,
        env=base | {"FASTPATH_MODE": "custom"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert 'name its class in REALTIME["HOOK"]' in done.stderr
