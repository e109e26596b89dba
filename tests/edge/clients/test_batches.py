"""What a listener collects, through real sockets: by time, by size, before an answer that ends it, before the end."""

from __future__ import annotations

from threading import Thread

import pytest

from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

NEVER = "clients://127.0.0.1:0?batch_ms=10000&batch_bytes=300,clients://127.0.0.1:0,publishers://127.0.0.1:0"
"""Only the size ever ends a batch in a test's time."""


@pytest.mark.parametrize("tls", [False, True])
def test_messages_leave_when_their_time_is_over(tls: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    certificate = Certificate(tmp_path_factory.mktemp("tls"))
    url = certificate.url("clients") + "&batch_ms=150" if tls else "clients://127.0.0.1:0?batch_ms=150"
    context = certificate.trusting() if tls else None
    with (
        Sidecar(listen=f"{url},publishers://127.0.0.1:0") as sidecar,
        WireClient(sidecar, tls=context) as client,
        WirePublisher(sidecar) as publisher,
    ):
        client.subscribe("/batch/a")
        for _ in range(3):
            publisher.publish(["/batch/a", "1"])
            publisher.publish(["/batch/a", "2"])
            assert client.texts(2) == ["1", "2"]


def test_a_size_alone_collects_for_a_tick_of_the_grid() -> None:
    listen = "clients://127.0.0.1:0?batch_bytes=1000000,clients://127.0.0.1:0,publishers://127.0.0.1:0"
    with (
        Sidecar(listen=listen) as sidecar,
        WireClient(sidecar) as client,
        WireClient(f"ws://{sidecar.ready['clients'][1]}/ws") as prompt,
        WirePublisher(sidecar) as publisher,
    ):
        for one in (client, prompt):
            one.subscribe("/batch/a")
        for _ in range(3):
            publisher.publish(["/batch/a", "1"])
            publisher.publish(["/batch/a", "2"])
            assert prompt.texts(2) == ["1", "2"]
            assert client.texts(2) == ["1", "2"]


def test_what_is_collected_is_sent_before_the_server_stops() -> None:
    with Sidecar(listen=NEVER) as sidecar, WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
        client.subscribe("/batch/a")
        publisher.publish(["/batch/a", "the last"])
        assert client.quiet()
        stopping = Thread(target=sidecar.stop)
        stopping.start()
        assert client.message()[3] == "the last"
        with pytest.raises(Ended) as end:
            client.next()
        assert end.value.code == 4000
        client.sock.close()
        publisher.sock.close()
        stopping.join(PATIENCE_SECONDS)


def test_workers_collect_too() -> None:
    """The worker that has the client gets the messages from the first one."""
    with Sidecar(listen=NEVER, workers=2) as sidecar, WirePublisher(sidecar) as publisher:
        clients = [WireClient(sidecar) for _ in range(8)]
        for client in clients:
            client.subscribe("/batch/a")
        publisher.publish(["/batch/a", "1"])
        for client in clients:
            assert client.quiet()
        publisher.publish(["/batch/a", "x" * 300])
        for client in clients:
            assert client.texts(2) == ["1", "x" * 300]
            client.sock.close()
