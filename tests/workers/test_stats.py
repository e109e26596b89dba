"""The figures are those of all workers together, and each one's beside them."""

from __future__ import annotations

from fastpath.client.control.client import Control
from tests.support.edge.spread import kill_worker, publisher, spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

WORKERS = 3


def test_figures_are_added_up() -> None:
    with Sidecar(workers=WORKERS) as sidecar, spread(sidecar, WORKERS) as clients, Control(sidecar.control) as control:
        for client in clients.all:
            client.subscribe("/stats/one", "/__sys__/stats")
        with publisher(sidecar) as port:
            port.publish(*[["/stats/one", "x"]] * 10)
        figures = until(
            lambda: (now := control.stats())["connections"] == WORKERS and now["messages_out"] >= 30 and now
        )
        assert (figures["workers"], figures["subscriptions"]) == (WORKERS, 2 * WORKERS)
        assert figures["subjects"] == 2
        assert figures["messages_in"] < 30, "what comes in is counted once"
        each = figures["by_worker"]
        assert [one["worker"] for one in each] == [0, 1, 2]
        assert [int(one["pid"]) for one in each] == sidecar.ready["workers"]
        assert sum(one["memory_bytes"] for one in each) == figures["memory_bytes"]
        assert all(one["connections"] == 1 for one in each)
        until(lambda: [one["messages_in"] for one in control.stats()["by_worker"]] == [10] * WORKERS)
        for client in clients.all:
            fields = {}
            while fields.get("workers") != str(WORKERS):
                message = client.message()
                fields = message[4] if len(message) > 4 and message[4] else {}


def test_figures_do_not_fall_when_a_worker_is_replaced() -> None:
    with Sidecar(workers=2) as sidecar, Control(sidecar.control) as control:
        with spread(sidecar, 2) as clients:
            for client in clients.all:
                for _ in range(5):
                    client.ask("publish", "published", subject="/nope", content="", closure="c")
            until(lambda: control.stats()["publications_refused"] == 10)
        kill_worker(sidecar, 1, 2)
        assert control.stats()["publications_refused"] == 10
        with WireClient(sidecar) as client:
            client.ask("ping", "pong")
            for _ in range(20):
                figures = control.stats()
                assert all(value >= 0 for name, value in figures.items() if name != "by_worker"), figures
