"""request() from Django against a real sidecar."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.utils.translation import gettext_lazy

from fastpath.client import Request, blocking
from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused, SidecarUnavailable, TooLarge
from realtime import (
    NoResponders,
    PublishRefused,
    Reply,
    RequestTimeout,
    ResponderError,
    ResponderGone,
    request,
)
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """A sidecar in which everybody may do everything."""
    with Sidecar(mode="none") as sidecar:
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def asked(shared: Sidecar, settings: Any) -> Sidecar:
    """The settings name it."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": shared.control}
    return shared


def test_replies_are_bounded_in_bytes(asked: Sidecar) -> None:
    """What does not fit into an answer is said, and the connections go on."""
    with WireClient(asked) as responder:
        responder.ask("respond", "responding", patterns=["/dj/large"])

        def answer() -> None:
            to = responder.answer("asked")["to"]
            for _ in range(20):
                responder.say("reply", to=to, content="x" * 900_000, more=True)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TooLarge, match="8388608 bytes"):
            request("/dj/large", "", replies=30)
        thread.join()
        with pytest.raises(NoResponders):
            request("/dj/nobody", "")


def test_replies_and_errors(asked: Sidecar) -> None:
    def answer(got: Request) -> Reply | str:
        if got.content == "error":
            got.reply("before")
            raise ResponderError("no_such_stock", "there is no ZZZ")
        if got.content == "three":
            got.reply("1")
            got.reply("2")
        return Reply(got.content, got.fields | {"user": got.user})

    with pytest.raises(NoResponders):
        request("/dj/x", "")
    with blocking.connect(asked.client_url) as client, client.respond("/dj/*", answer):
        assert request("/dj/x", b"\xff", {"a": "1"}) == Reply(b"\xff", {"a": "1", "user": ""})
        assert request("/dj/x", gettext_lazy("lazy")).content == "lazy"
        assert [reply.content for reply in request("/dj/x", "three", replies=9)] == ["1", "2", "three"]
        with pytest.raises(ResponderError, match="no_such_stock: there is no ZZZ") as error:
            request("/dj/x", "error", replies=2)
        assert error.value.replies == [Reply("before", {})]


def test_time_and_ends(asked: Sidecar) -> None:
    with WireClient(asked) as client:
        client.ask("respond", "responding", patterns=["/dj/slow"])
        with pytest.raises(RequestTimeout):
            request("/dj/slow", "", timeout=0.2)
        assert client.answer("asked")["to"] == client.answer("over")["to"]
        ending = threading.Thread(target=lambda: (client.answer("asked"), client.sock.close()))
        ending.start()
        with pytest.raises(ResponderGone):
            request("/dj/slow", "", timeout=30)
        ending.join()


def test_what_can_never_be_asked(asked: Sidecar) -> None:
    for subject in ("bad", "/__sys__/x", "/a/*"):
        with pytest.raises(PublishRefused):
            request(subject, "")
    with pytest.raises(TypeError):
        request("/a/b", object())  # type: ignore[call-overload]
    for bad in ({"timeout": 0}, {"timeout": 301}, {"replies": 0}, {"replies": 1001}):
        with pytest.raises(ValueError, match=r"timeout|replies"):
            request("/a/b", "", **bad)  # type: ignore[call-overload]

    async def in_a_loop() -> None:
        request("/a/b", "")

    with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
        asyncio.run(in_a_loop())


def test_nodes_that_are_away_are_passed_over(asked: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": ["/nowhere/at/all.sock", asked.control]}
    with blocking.connect(asked.client_url) as client, client.respond("/dj/away", lambda got: "here"):
        assert request("/dj/away", "").content == "here"
    settings.REALTIME = settings.REALTIME | {"CONTROL": "/nowhere/at/all.sock"}
    with pytest.raises(SidecarUnavailable):
        request("/dj/away", "")


def test_the_dummy_has_nobody(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"BACKEND": "dummy"}
    with pytest.raises(NoResponders):
        request("/dj/x", "")


def test_what_the_verbs_refuse(asked: Sidecar) -> None:
    with Control(asked.control) as control:
        for verb, arguments in (
            ("request", {"subject": "/a/b"}),
            ("request", {"subject": 1, "content": ""}),
            ("request", {"subject": "/a/b", "content": 1}),
            ("request", {"subject": "/a/b", "content": "", "timeout": "1"}),
            ("request", {"subject": "/a/b", "content": "", "timeout": 0}),
            ("respond", {"patterns": "/a/b"}),
            ("respond", {"patterns": [1]}),
            ("reply", {"content": ""}),
            ("reply", {"to": "x", "error": 1}),
            ("reply", {"to": "x", "reason": "without an error"}),
        ):
            with pytest.raises(ControlRefused) as refused:
                control.call(verb, arguments)
            assert refused.value.code == "invalid"
        assert control.call("reply", {"to": "/__sys__/inbox/x/1"})["status"] == "gone"
        assert control.call("request", {"subject": "bad", "content": ""})["error"] == "invalid"
