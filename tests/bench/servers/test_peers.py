"""The other servers: found or named with what installs them, started, and gone afterwards."""

from __future__ import annotations

import os
import socket

import pytest

from fastpath.bench.machine.processes import family
from fastpath.bench.servers import peers
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.mark.parametrize("name", ["mosquitto", "mosquitto-ws", "nats", "nats-ws", "nchan", "redis"])
def test_a_peer_that_is_not_installed_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing can be found on an empty PATH."""
    monkeypatch.setenv("PATH", "")
    peer = peers.PEERS[name]

    with (
        pytest.raises(
            peers.PeerError, match=f"{peer.title}: skipped, no .* on the PATH; install it with: apt-get install"
        ),
        peers.run(peer),
    ):
        pass


def test_a_server_of_debian_is_found_by_an_ordinary_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    """Whose PATH has /usr/bin but not /usr/sbin."""
    for folder in ("bin", "sbin"):
        os.mkdir(os.path.join(tmp_path, folder))
    program = os.path.join(tmp_path, "sbin", "nginx")
    with open(program, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o700)
    monkeypatch.setenv("PATH", os.path.join(tmp_path, "bin"))

    assert peers.find_program("nginx") == program


def test_channels_runs_in_this_python_and_is_gone_afterwards() -> None:
    """It is what the web part is built on, so it is always here; its folder and its port go with it."""
    with peers.run(peers.PEERS["channels"]) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as connection:
            connection.sendall(
                b"GET /sub/s000,s001 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            connection.settimeout(PATIENCE_SECONDS)
            answer = b""
            while b"\x81\x05ready" not in answer:
                answer += connection.recv(4096)
        assert running.pids
        assert answer.startswith(b"HTTP/1.1 101")

    until(lambda: not os.path.exists(f"/proc/{running.pids[0]}"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", running.port), 1)


def test_a_peer_that_does_not_start_says_why() -> None:
    """The end of its log is in the error."""
    broken = peers.Peer(
        "broken", "Broken", "nchan", True, "nothing", lambda: "",
        lambda place: ["/bin/sh", "-c", "echo no such luck >&2; exit 3"],
    )  # fmt: skip

    with pytest.raises(peers.PeerError, match=r"Broken ended with status 3: no such luck"), peers.run(broken):
        pass


def test_the_family_of_a_process_begins_with_itself() -> None:
    """And has its children."""
    assert family(os.getpid())[0] == os.getpid()


def test_ours_is_spoken_to_as_any_broker_of_mqtt() -> None:
    with peers.run(peers.PEERS["fastpath-mqtt"]) as running:
        with socket.create_connection(("127.0.0.1", running.port), 10) as connection:
            connection.sendall(b"\x10\x0d\0\4MQTT\4\2\0\0\0\1a")
            assert connection.recv(4) == b"\x20\2\0\0"
        assert running.pids
