"""GET /api/servers: the node as it was reached, the others of its settings, and who is left while it is drained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.certificates import Certificate
from tests.support.edge.calling import HttpPeer
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET

OTHERS = [{"url": "ws://b.example.com/ws", "weight": 50}, {"url": "wss://c.example.com/ws", "weight": 100}]
SETTING = "ws://b.example.com/ws 50, wss://c.example.com/ws"


def servers(peer: HttpPeer, path: str = "/api/servers", **headers: str) -> Any:
    """What is told."""
    answer = peer.ask("GET", path, **headers)
    assert answer.status == 200, answer
    return answer.json["servers"]


@pytest.mark.parametrize("mode", ["none", "rules"])
def test_the_node_as_it_was_reached_and_the_others_of_its_settings(mode: str) -> None:
    """For everybody, also where no rights have come; behind a proxy with TLS as that is reached."""
    with Sidecar(mode=mode, token_secret=SECRET, servers=SETTING) as sidecar, HttpPeer(sidecar) as peer:
        own = {"url": "ws://x/ws", "weight": 100}
        for path in ("/api/servers", "/api/servers/", "/api/servers?token=no"):
            assert servers(peer, path) == [own, *OTHERS]
        assert servers(peer, X_Forwarded_Proto="https")[0]["url"] == "wss://x/ws"
        packed = peer.ask("GET", "/api/servers", Accept="application/msgpack")
        assert packed.json["servers"] == [own, *OTHERS]
        assert peer.ask("GET", "/api/servers?more=1").status == 400
        assert peer.ask("POST", "/api/servers", b"{}").status == 405


@pytest.mark.parametrize("host", ["a.example.com:8800", "127.0.0.1", "[::1]:8800"])
def test_a_host_is_told_again(host: str, shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        peer.send(f"GET /api/servers HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert peer.response().json == {"servers": [{"url": f"ws://{host}/ws", "weight": 100}]}


def test_one_that_is_none_is_not(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        peer.send(b"GET /api/servers HTTP/1.1\r\nHost: a/b?c=<d>\r\n\r\n")
        assert peer.response().json == {"servers": []}


def test_over_tls(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    listen = f"{certificate.url('clients')},{certificate.url('publishers')}"
    with Sidecar(listen=listen) as sidecar, HttpPeer(sidecar, tls=certificate.trusting()) as peer:
        assert servers(peer) == [{"url": "wss://x/ws", "weight": 100}]


def test_a_node_that_drains_names_the_others_alone() -> None:
    """Unless there are none."""
    with Sidecar(servers=SETTING) as sidecar, HttpPeer(sidecar) as peer, Control(sidecar.control) as control:
        assert len(servers(peer)) == 3
        control.drain()
        assert servers(peer) == OTHERS
        control.drain(servers=[["ws://d.example.com/ws", 7]])
        assert servers(peer) == [{"url": "ws://d.example.com/ws", "weight": 7}]
        control.undrain()
        assert len(servers(peer)) == 3
    with Sidecar() as alone, HttpPeer(alone) as peer, Control(alone.control) as control:
        control.drain()
        assert servers(peer) == [{"url": "ws://x/ws", "weight": 100}]
