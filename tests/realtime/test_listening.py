"""Listeners of the project: what they are told of every node, and what one that fails or dawdles costs the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from django.core.exceptions import ImproperlyConfigured

from realtime import checks, listening
from realtime.listening import Event, Listener
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

HERE = "tests.realtime.test_listening"


class Noting(Listener):
    """Keeps what it is told of who comes and goes."""

    told: ClassVar[list[Event]] = []

    def access(self, event: Event) -> None:
        self.told.append(event)


class Failing(Listener):
    """Is told of everything, and fails."""

    kinds = ("access", "message", "cache", "statistics")
    failures: ClassVar[list[str]] = []

    def event(self, event: Event) -> None:
        self.failures.append(event["kind"])
        raise RuntimeError("this listener fails on purpose")


class Slow(Listener):
    """Does not come to an end with its first message until it may."""

    kinds = ("message",)
    may_go_on = threading.Event()
    missed: ClassVar[list[int]] = []

    def message(self, event: Event) -> None:
        self.may_go_on.wait(30)

    def dropped(self, node: str, count: int) -> None:
        self.missed.append(count)


class Kinds(Listener):
    """Wants what there is not."""

    kinds = ("nonsense",)


@contextmanager
def listening_to(settings: Any, names: list[str], *sidecars: Sidecar) -> Iterator[None]:
    """The listeners of these names, for a while."""
    settings.REALTIME = settings.REALTIME | {"LISTENERS": [f"{HERE}.{name}" for name in names]}
    stop = threading.Event()
    threads = listening.start([sidecar.control for sidecar in sidecars], stop)
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


def test_every_node_is_heard_also_one_that_comes_back(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.05)
    Noting.told.clear()
    with Sidecar() as one, Sidecar() as other, listening_to(settings, ["Noting", "Failing"], one, other):
        for sidecar in (one, other):
            with WireClient(sidecar) as client:
                until(lambda client=client, sidecar=sidecar: heard(client, f"/n/{sidecar.pid}"))
        other.kill()
        other.start()
        with WireClient(other) as client:
            # Each listener has a connection of its own, and was told on after its first failure.
            until(lambda: heard(client, "/n/again") and {"access", "cache"} <= set(Failing.failures))
    assert caplog.text.count("tells nothing") <= 2, "once for each listener, while the node was away"


def heard(client: WireClient, subject: str) -> bool:
    """Subscribe, again and again, until the listener has been told."""
    client.subscribe(subject, history=1)
    return any(event.get("subject") == subject and event["event"] == "subscribed" for event in Noting.told)


def test_one_that_dawdles_misses_what_it_cannot_take_and_the_others_do_not(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "WAITING_MAX", 2)
    Noting.told.clear()
    Slow.may_go_on.clear()
    with (
        Sidecar() as sidecar,
        listening_to(settings, ["Noting", "Slow"], sidecar),
        WirePublisher(sidecar) as publisher,
        WireClient(sidecar) as client,
    ):
        until(lambda: heard(client, "/slow/begun"))
        for _ in range(8):
            publisher.publish(*[["/slow/a", "x"]] * 10_000)
        until(lambda: heard(client, "/slow/a"))
        Slow.may_go_on.set()
        # What was dropped is told a part at a time, with what comes next.
        until(lambda: publisher.publish(["/slow/a", "x"]) and sum(Slow.missed) > 1000)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("tests.realtime.test_listening.Missing", "Missing"),
        ("nowhere.Listener", "nowhere"),
        ("threading.Event", "no subclass"),
        (f"{HERE}.Kinds", "kinds is a list of access"),
    ],
)
def test_what_is_no_listener_is_named(settings: Any, path: str, why: str) -> None:
    settings.REALTIME = settings.REALTIME | {"LISTENERS": [path]}
    with pytest.raises(ImproperlyConfigured, match=why):
        listening.start([], threading.Event())
    assert [error.id for error in checks.check_listeners()] == ["realtime.E010"]


def test_without_listeners_nothing_is_started(settings: Any) -> None:
    assert listening.start(["/nowhere.sock"], threading.Event()) == []
    assert checks.check_listeners() == []
