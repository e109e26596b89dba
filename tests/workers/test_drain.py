"""Several workers drain as one: their rate together is the one that was asked for, and messages go on meanwhile."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

from fastpath.client.control.client import Control
from tests.support.edge.draining import OTHERS, SERVERS, SUBJECT, Seen, accepts, clients_of
from tests.support.edge.spread import figures_by_worker, kill_worker, spread
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


def test_all_workers_drain_and_open_again() -> None:
    with Sidecar(workers=2) as sidecar, Control(sidecar.control) as control, spread(sidecar, 2) as clients:
        for client in clients.all:
            client.subscribe(SUBJECT)
        control.call("drain", {"servers": OTHERS})
        for client in clients.all:
            seen = Seen(client)
            assert (seen.code, seen.notice and seen.notice["servers"]) == (4000, OTHERS)
        until(lambda: not accepts(sidecar))
        kill_worker(sidecar, 1, 2)
        assert not accepts(sidecar), "the one that took its place drains, too"
        control.call("undrain")
        with spread(sidecar, 2) as again:
            for client in again.all:
                assert client.subscribe(SUBJECT)[0]["sid"]


def test_they_share_the_rate_and_clients_of_all_get_what_comes_meanwhile() -> None:
    settings = {"workers": 2, "servers": SERVERS, "drain_per_second": 10, "drain_seconds": 30}
    with Sidecar(**settings) as sidecar, Control(sidecar.control) as control, ExitStack() as stack:
        clients = clients_of(sidecar, stack, 24)
        until(lambda: sum(one["connections"] for one in figures_by_worker(sidecar)) == 24)
        os.kill(sidecar.pid, signal.SIGTERM)
        until(lambda: control.hello()["draining"])
        control.publish([[SUBJECT, "1"]])
        seen = [Seen(client) for client in clients]
        assert {one.code for one in seen} == {4000}
        assert all(one.contents in ([], [1]) for one in seen)
        assert [1] in [one.contents for one in seen], "the links carry until the last client has gone"
        assert sidecar.process is not None
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0
        assert "Traceback" not in sidecar.log


def test_a_second_signal_to_the_parent_ends_it() -> None:
    settings = {"workers": 2, "servers": SERVERS, "drain_per_second": 1, "drain_seconds": 60}
    with Sidecar(**settings) as sidecar, ExitStack() as stack:
        clients: list[WireClient] = clients_of(sidecar, stack, 40)
        os.kill(sidecar.pid, signal.SIGTERM)
        until(lambda: "draining" in sidecar.log)

        def told() -> bool:
            os.kill(sidecar.pid, signal.SIGTERM)
            return sidecar.log.count("stopping: ") == 2

        until(told)
        seen = [Seen(client) for client in clients]
        assert {one.code for one in seen} == {4000}
        assert None in [one.notice for one in seen], "before its turn"
        assert sidecar.process is not None
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0
