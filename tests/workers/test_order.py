"""One order of every subject over all workers, whoever publishes and wherever its subscribers are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.spread import spread
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

WORKERS = 3
ROUNDS = 100
COUNT = 24
"""So many publishers that some land on either worker."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(workers=WORKERS) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def test_the_ready_line_names_the_parent_and_its_workers(sidecar: Sidecar) -> None:
    ready = sidecar.ready
    assert ready["pid"] == sidecar.pid
    assert len({*ready["workers"], ready["pid"]}) == 1 + WORKERS
    assert ready.keys() == {"clients", "publishers", "control", "control_tls", "metrics", "mqtt", "pid", "workers"}


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_all_see_one_order_without_loss(sidecar: Sidecar, form: str) -> None:
    """Three publish to the same subject at once: the port, a client of another worker, Django."""
    subject = f"/order/{form}"
    with (
        spread(sidecar, WORKERS, form=form) as clients,
        WirePublisher(sidecar) as port,
        Control(sidecar.control) as control,
        WireClient(sidecar, form) as anywhere,
    ):
        for client in clients.all:
            client.subscribe(subject)
        for number in range(ROUNDS):
            port.packet("batch", number + 1, [[subject, f"port {number} {part}"] for part in "ab"])
            clients.others[0].say("publish", subject=subject, content=f"other {number}", closure=str(number))
            anywhere.say("publish", subject=subject, content=f"any {number}", qos="guaranteed")
            if number % 10 == 0:
                control.publish([[subject, f"django {number}"]])
        count = ROUNDS * 4 + ROUNDS // 10
        seen = []
        for client in clients.all:
            messages = [client.message() for _ in range(count)]
            assert [message[1] for message in messages] == list(range(1, count + 1))
            seen.append([message[3] for message in messages])
        assert seen[0] == seen[1] == seen[2]
        for kind in ("port", "other", "any", "django"):
            own = [text for text in seen[0] if text.startswith(kind)]
            assert own == sorted(own, key=lambda text: int(text.split()[1])), "each publisher's own order"


def test_a_publication_on_another_worker_is_acknowledged_with_its_position(sidecar: Sidecar) -> None:
    with spread(sidecar, WORKERS) as clients:
        answers = []
        for client in clients.all:
            answers.append(client.ask("publish", "published", subject="/ack/one", content="x", closure="c"))
        assert [answer["seq"] for answer in answers] == [1, 2, 3]
        assert len({answer["epoch"] for answer in answers}) == 1
        other = clients.others[0]
        answer = other.ask("publish", "published", subject="/ack/one", content="x", closure="s", qos="standard")
        assert answer["status"] == "ok"
        assert "seq" not in answer
        answer = other.ask("publish", "published", subject="/ack", content="x", closure="i")
        assert (answer["status"], answer["reason"].rpartition(": ")[2]) == ("invalid", "only one segment")
        answer = other.ask("publish", "published", subject="/__sys__/x", content="x", closure="d")
        assert answer["status"] == "denied"


def test_binary_values_and_what_goes_with_a_message_reach_every_worker(sidecar: Sidecar) -> None:
    with spread(sidecar, WORKERS, form="msgpack") as clients, WirePublisher(sidecar) as port:
        for client in clients.all:
            client.subscribe("/meta/one")
        meta = {"reply_to": "/inbox/me", "closure": "c", "as_of": 17, "retained": False}
        port.publish(["/meta/one", b"\x00\xff", {"a": b"\x01", "b": "ü"}, meta])
        clients.others[1].say(
            "publish", subject="/meta/one", content=b"\xfe", fields={"c": b"\x02"}, reply_to="/inbox/you", closure="d"
        )
        for client in clients.all:
            first, second = client.message(), client.message()
            assert first[3:] == [b"\x00\xff", {"a": b"\x01", "b": "ü"}, meta]
            assert second[3:] == [b"\xfe", {"c": b"\x02"}, {"reply_to": "/inbox/you", "closure": "d"}]


def test_publishers_on_a_shared_port_land_on_any_worker() -> None:
    """Those who land on another worker than the first are served all the same, with the same numbers."""
    with Sidecar(workers=2, listen="clients+publishers://127.0.0.1:0") as sidecar, spread(sidecar, 2) as clients:
        for client in clients.all:
            client.subscribe("/shared/one")
        publishers = [WirePublisher(sidecar) for _ in range(COUNT)]
        try:
            assert len({publisher.welcome["server"] for publisher in publishers}) == 2
            results = [publisher.publish(["/shared/one", "x"], ["shared", "y"]) for publisher in publishers]
            assert [result[0] for result in results] == list(range(1, COUNT + 1))
            assert {result[1][0] for result in results} == {"invalid"}
        finally:
            for publisher in publishers:
                publisher.sock.close()
        for client in clients.all:
            assert [client.message()[1] for _ in range(COUNT)] == list(range(1, COUNT + 1))
