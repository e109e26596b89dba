"""The figures are those of all workers together, and each one's beside them."""

from __future__ import annotations

from fastpath.client.control.client import Control
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


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
