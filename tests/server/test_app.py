"""How a sidecar ends: told to stop, it says so to everybody; killed, it is back at once on the same addresses."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.certificates import Certificate
from tests.support.edge.wire import Ended, WireClient, WirePublisher, request
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS


def ended(sidecar: Sidecar, within_seconds: float) -> int:
    """The exit status of a sidecar that was told to stop."""
    assert sidecar.process is not None
    return sidecar.process.wait(within_seconds)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_tells_clients_and_publishers_to_come_back(how: signal.Signals) -> None:
    with Sidecar() as sidecar, ExitStack() as stack:
        clients = [stack.enter_context(WireClient(sidecar, form)) for form in ("json", "msgpack", None)]
        publisher = stack.enter_context(WirePublisher(sidecar))
        for client in clients:
            client.subscribe("/end/one")
        publisher.packet("batch", 1, [["/end/one", "last"]])
        assert publisher.next()[:2] == ["ack", 1]
        os.kill(sidecar.pid, how)
        assert publisher.closed() == (4000, "drain: the server is stopping; reconnect and resend")
        publisher.sock.close()
        for client in clients:
            assert client.texts(1) == ["last"], "what was acknowledged came first"
            assert client.closed() == (4000, "drain")
        assert ended(sidecar, PATIENCE_SECONDS) == 0
        assert not Path(sidecar.control).exists()
        with pytest.raises(ConnectionRefusedError):
            WireClient(sidecar)
        assert "Traceback" not in sidecar.log


def test_a_publisher_alone_is_told_too() -> None:
    with Sidecar() as sidecar, WirePublisher(sidecar) as publisher:
        os.kill(sidecar.pid, signal.SIGTERM)
        assert publisher.closed()[0] == 4000


def test_over_tls_too(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    listen = f"{certificate.url('clients')},{certificate.url('publishers')}"
    with Sidecar(listen=listen) as sidecar:
        context = certificate.trusting()
        with WireClient(sidecar, tls=context) as client, WirePublisher(sidecar, tls=context) as publisher:
            client.subscribe("/end/tls")
            os.kill(sidecar.pid, signal.SIGTERM)
            assert client.closed() == (4000, "drain")
            assert publisher.closed()[0] == 4000
        assert ended(sidecar, 10) == 0


def test_who_does_not_answer_holds_it_up_for_a_while_only() -> None:
    with Sidecar() as sidecar, ExitStack() as stack:
        deaf = stack.enter_context(WireClient(sidecar, receive_bytes=4096))
        deaf.subscribe("/end/deaf")
        half = socket.create_connection(deaf.sock.getpeername())
        stack.callback(half.close)
        half.sendall(request()[:20])
        with WirePublisher(sidecar) as publisher:
            for _ in range(50):
                publisher.publish(["/end/deaf", "x" * 50_000])
        os.kill(sidecar.pid, signal.SIGTERM)
        assert ended(sidecar, PATIENCE_SECONDS) == 0


def test_killed_it_is_back_on_the_same_addresses() -> None:
    with Sidecar() as sidecar, WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
        where = sidecar.client_url, sidecar.publisher_url
        client.subscribe("/end/killed")
        server = client.ask("connect", "connected")["server"]
        sidecar.kill()
        for peer in (client, publisher):
            with pytest.raises(Ended) as end:
                peer.next()
            assert end.value.code == 0, "no farewell: the connection just ends"
        sidecar.start()
        assert (sidecar.client_url, sidecar.publisher_url) == where
        with WireClient(sidecar) as again:
            assert again.ask("connect", "connected")["server"] != server, "its subject ids are not valid any more"
