"""What the pages on plain HTTP, events and sessions ask with curl, against a sidecar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client import Request
from fastpath.client.blocking import connect
from fastpath.client.control import Control
from fastpath.client.publisher import Publisher
from tests.support.documentation.python_code import transcript
from tests.support.documentation.running import Run, here, shell
from tests.support.guide import one
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.curl

REST = "docs/reference/rest.md"
EVENTS = "docs/reference/events.md"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """One for all, with a price."""
    with Sidecar(mode="none", presence="/chat/**") as running:
        with Publisher(running.publisher_url) as publisher:
            publisher.publish("/stocks/us/IBM", "193", {"volume": "6.62M"})
            publisher.publish("/stocks/us/GE", "7")
        yield running


def answers(text: str, sidecar: Sidecar) -> list[dict[str, Any]]:
    """What the commands of a block are answered."""
    said = shell(here(text, sidecar).replace("curl ", "curl -sS -w '\\n' "), TOKEN="ann")
    return [json.loads(line) for line in said.splitlines() if line]


def test_the_first_three(shared: Sidecar) -> None:
    """A snapshot, a publication with a key of its own, history."""
    snapshot, published, history = answers(one(REST, "sh", "Idempotency-Key"), shared)
    assert (snapshot["subject"], snapshot["content"], snapshot["fields"]) == (
        "/stocks/us/IBM",
        "193",
        {"volume": "6.62M"},
    )
    assert published["results"][0]["status"] == "ok"
    assert history["subjects"][0]["messages"][-1]["content"] == "2:1"


def test_history_that_waits(shared: Sidecar) -> None:
    """The position is the reader's."""
    (before,) = answers('curl "http://127.0.0.1:8800/snapshot?subject=/stocks/us/IBM"', shared)
    with Publisher(shared.publisher_url) as publisher:
        publisher.publish("/stocks/us/IBM", "194")
    text = one(REST, "sh", "wait=30").replace("1795594539979,9", f"{before['epoch']},{before['seq']}")
    (found,) = answers(text, shared)
    assert [message["content"] for message in found["subjects"][0]["messages"]] == ["194"]


def test_history_of_a_pattern(shared: Sidecar) -> None:
    whole, rest = answers(one(REST, "sh", "after=/stocks/us/IBM"), shared)
    assert [one["subject"] for one in whole["subjects"]] == ["/stocks/us/GE", "/stocks/us/IBM"]
    assert rest["subjects"] == []


def test_a_request(shared: Sidecar) -> None:
    def quote(request: Request) -> str:
        return f"193.20 for {request.content}"

    with connect(shared.client_url) as client, client.respond("/quotes/*", quote):
        (found,) = answers(one(REST, "sh", "/api/request"), shared)
    assert found["replies"][0]["content"] == "193.20 for IBM"


def test_events(shared: Sidecar) -> None:
    """A stream, and another one that begins after an event of the first."""
    text = here(one(EVENTS, "sh", "/events?subjects=/stocks/us/IBM,/chat/**"), shared)
    with Program(["bash", "-c", f"exec {text}"], {"NO_PROXY": "*"}, r"(?s)id: (\S+)\n.*\n\n", 30) as stream:
        assert '"/stocks/us/IBM"' in stream.output
        later = here(one(EVENTS, "sh", "Last-Event-ID"), shared)
        later = later.replace("gc8AAAGiEcO0t4EAAg", stream.found[1])
        with Program(["bash", "-c", f"exec {later}"], {"NO_PROXY": "*"}, r": ", 30) as again:
            with Publisher(shared.publisher_url) as publisher:
                publisher.publish("/stocks/us/IBM", "195")
            until(lambda: '"195"' in again.output, 30)
            assert '"content":"193"' not in again.output


def test_figures_of_the_control_socket(shared: Sidecar) -> None:
    """docs/operate/figures.md, what is typed there; a name that an answer lacks would raise."""
    with Control(shared.control) as control:
        until(lambda: control.stats()["connections"] == 0)  # who came before may just be leaving
    figures = transcript(one("docs/operate/figures.md", "pycon", "figures = control.stats()"))
    run = Run(figures.replace("var/fastpath.sock", shared.control), {}).now()
    assert run.names["figures"]["connections"] == 0
    with Control(shared.control) as control:
        top = transcript(one("docs/operate/figures.md", "pycon", "control.top"))
        Run(top, {"control": control}).now()
