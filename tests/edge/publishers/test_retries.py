"""A publication that is sent again is stored once, whichever way it comes (protocol.md 3.7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def sidecar(request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    with Sidecar(workers=request.param) as running:
        yield running


def stored(sidecar: Sidecar, subject: str) -> list[str]:
    """All that is cached of the subject."""
    with WireClient(sidecar) as reader:
        [result] = reader.subscribe(subject, history=1000)
        return [reader.message()[3] for _ in range(result.get("messages", 0))]


def test_on_the_publishers_port_over_connections(sidecar: Sidecar) -> None:
    rows = [["/retry/port", str(number)] for number in range(1, 5)]
    with WirePublisher(sidecar, publisher="desk-7") as port:
        port.packet("batch", 1, rows[:2], 1)
        _, _, epoch, results = port.next()
        assert results == [1, 2]
    with WirePublisher(sidecar, publisher="desk-7") as port:
        port.packet("batch", 1, rows, 1)
        assert port.next()[3] == [[epoch, 1], [epoch, 2], 3, 4]
        port.packet("batch", 2, [["/retry/port", "5", None, {"id": 9}], ["/retry/port", "x", None, {"id": 7}]])
        result, refused = port.next()[3]
        assert (result, refused[0]) == (5, "out_of_order")
    with WirePublisher(sidecar, publisher="desk-8") as port:
        port.packet("batch", 1, [["/retry/port", "6"]], 1)
        assert port.next()[3] == [6]
    assert stored(sidecar, "/retry/port") == ["1", "2", "3", "4", "5", "6"]


def test_numbers_need_a_name(sidecar: Sidecar) -> None:
    with WirePublisher(sidecar) as port:
        port.packet("batch", 1, [["/retry/none", "1", None, {"id": 1}]])
        assert port.next()[3][0][0] == "invalid"
        port.packet("batch", 2, [["/retry/none", "1"]], 1)
        assert port.closed()[0] == 4500
    with WireClient(sidecar) as client:
        answer = client.ask("publish", "published", subject="/retry/none", content="x", closure="c", publication=1)
        assert answer["status"] == "invalid"


def test_on_a_websocket(sidecar: Sidecar) -> None:
    answers = []
    for _ in range(2):
        with WireClient(sidecar) as client:
            client.ask("connect", "connected", publisher="page-1")
            for number in (1, 2):
                keys = {"subject": "/retry/ws", "content": str(number), "closure": "c", "publication": number}
                answers.append(client.ask("publish", "published", **keys))
    assert [(one["status"], one["seq"]) for one in answers] == [("ok", 1), ("ok", 2)] * 2
    assert len({one["epoch"] for one in answers}) == 1
    assert stored(sidecar, "/retry/ws") == ["1", "2"]


def test_on_the_control_socket(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        for expected in ([1, 2], None):
            answer = control.call(
                "publish", {"messages": [["/retry/c", "1"], ["/retry/c", "2"]], "publisher": "web-1", "first": 1}
            )
            assert answer["results"] == (expected or [[answer["epoch"], 1], [answer["epoch"], 2]])
    assert stored(sidecar, "/retry/c") == ["1", "2"]
