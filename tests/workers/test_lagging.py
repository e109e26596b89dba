"""A worker that does not keep up with the log is cut, ends itself and is replaced; the others do not notice."""

from __future__ import annotations

import os
import signal

from tests.support.edge.spread import figures_by_worker, publisher, spread
from tests.support.edge.wire import Ended, resident_bytes
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

MESSAGES = 90
MESSAGE_BYTES = 1 << 20


def test_a_lagging_worker_is_cut_and_its_clients_come_back() -> None:
    # The cache is small, so that the memory of the first worker shows what waits for the link. A slow machine needs
    # long to fill that: meanwhile nobody ends the worker for hanging.
    with Sidecar(workers=2, cache_messages=1, hang_seconds=60) as sidecar, spread(sidecar, 2) as clients:
        first, other = clients.first, clients.others[0]
        lagging = sidecar.ready["workers"][1]
        [start] = [result["seq"] for result in other.subscribe("/lag/one")]
        assert start == 0
        first.subscribe("/lag/two")
        os.kill(lagging, signal.SIGSTOP)
        try:
            with publisher(sidecar) as port:
                for number in range(MESSAGES):
                    assert port.publish(["/lag/one", "x" * (MESSAGE_BYTES - 10)]) == [number + 1]
                assert port.publish(["/lag/two", "still here"]) == [1]
            assert first.message()[3] == "still here"
            until(lambda: "bytes wait for it" in sidecar.log)
            assert resident_bytes(sidecar.ready["workers"][0]) < 200 << 20
        finally:
            os.kill(lagging, signal.SIGCONT)
        until(lambda: (each := figures_by_worker(sidecar)) and len(each) == 2 and each[1]["pid"] != lagging, 20)
        until(lambda: "was cut" in sidecar.log)  # a thread writes the log
        try:
            while True:
                other.next()
        except Ended as end:
            assert end.code in (0, 4000, 4001)
        with spread(sidecar, 2) as again:
            for client in again.all:
                [result] = client.subscribe("/lag/one")
                assert result["seq"] == MESSAGES
