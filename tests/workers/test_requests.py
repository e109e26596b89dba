"""Requests over several workers: one view of who responds, replies on their way back, and workers that die."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

WORKERS = 3


@pytest.fixture(scope="module")
def three() -> Iterator[Sidecar]:
    """Three workers in which everybody may do everything."""
    with Sidecar(mode="none", workers=WORKERS) as sidecar:
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


def answers(asking: WireClient, responder: WireClient, subject: str, content: str = "reply") -> dict[str, Any]:
    """What comes of a request that this responder is to be asked and answers."""
    number = asking.say("request", subject=subject, content="x")
    asked = responder.answer("asked")
    assert asked["subject"] == subject
    replying = responder.say("reply", to=asked["to"], content=content)
    if asking is not responder:
        assert responder.answer("replied", replying)["status"] == "ok"
    return asking.answer("response", number)


def test_every_worker_reaches_every_other_and_knows_at_once_that_nobody_is_there(three: Sidecar) -> None:
    with spread(three, WORKERS) as asking, spread(three, WORKERS) as answering:
        for responder in answering.all:
            for client in asking.all:
                assert client.ask("request", "response", subject="/q/x", content="")["error"] == "no_responders"
            responder.ask("respond", "responding", patterns=["/q/*"])
            for client in asking.all:
                assert answers(client, responder, "/q/x")["content"] == "reply"
            responder.ask("respond", "responding", patterns=[])


def test_responders_of_all_workers_are_asked_in_turns(three: Sidecar) -> None:
    with spread(three, WORKERS) as asking, spread(three, WORKERS) as answering:
        for responder in answering.all:
            responder.ask("respond", "responding", patterns=["/turns/x"])
        for client in asking.all:
            for _ in range(WORKERS):
                client.say("request", subject="/turns/x", content="")
        for responder in answering.all:
            for _ in range(WORKERS):
                responder.answer("asked")
            assert responder.quiet()


def test_ends_are_told_over_workers(three: Sidecar) -> None:
    with spread(three, WORKERS) as asking, spread(three, WORKERS) as answering:
        one, two = asking.others
        first, second = answering.others
        first.ask("respond", "responding", patterns=["/ends/x"])
        numbers = {client: client.say("request", subject="/ends/x", content="") for client in (one, asking.first)}
        for _ in numbers:
            first.answer("asked")
        first.sock.close()
        for client, number in numbers.items():
            assert client.answer("response", number)["error"] == "responder_gone"
        second.ask("respond", "responding", patterns=["/ends/x"])
        for client in (two, asking.first):
            client.say("request", subject="/ends/x", content="")
            to = second.answer("asked")["to"]
            client.sock.close()
            assert second.answer("over")["to"] == to
            assert second.ask("reply", "replied", to=to, content="")["status"] == "gone"


@pytest.mark.slow
def test_a_worker_that_dies_takes_its_responders_along_and_the_first_one_is_told_the_others_again() -> None:
    with Sidecar(mode="none", workers=2) as sidecar:
        with spread(sidecar, 2) as asking, spread(sidecar, 2) as answering:
            (responder,) = answering.others
            responder.ask("respond", "responding", patterns=["/dies/x"])
            number = asking.first.say("request", subject="/dies/x", content="", timeout=60_000)
            responder.answer("asked")
            kill_worker(sidecar, 1, 2)
            assert asking.first.answer("response", number)["error"] == "responder_gone"
            assert asking.first.ask("request", "response", subject="/dies/x", content="")["error"] == "no_responders"
        with spread(sidecar, 2) as asking, spread(sidecar, 2) as answering:
            (responder,) = answering.others
            responder.ask("respond", "responding", patterns=["/dies/x"])
            kill_worker(sidecar, 0, 2)
            (client,) = asking.others

            def reached() -> bool:
                number = client.say("request", subject="/dies/x", content="", timeout=2000)
                return client.answer("response", number)["error"] == "timeout"

            until(reached)
            responder.answer("over")
            assert answers(client, responder, "/dies/x")["content"] == "reply"
