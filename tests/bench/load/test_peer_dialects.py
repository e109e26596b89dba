"""What is said to the other servers, in bytes, and in conversation with those that are installed."""

from __future__ import annotations

import socket

import pytest

from fastpath.bench.load.peer_dialects import DIALECTS, PeerDialect, masked, upgrade
from fastpath.bench.servers import peers
from tests.support.waiting import until

PAYLOAD = b"@#" + b"x" * 138


@pytest.mark.parametrize(
    ("name", "publication"),
    [
        ("nchan", b"\x81\x82\0\0\0\0hi"),
        ("channels", b"\x81\x87\0\0\0\0s001 hi"),
        ("nats", b"PUB s001 2\r\nhi\r\n"),
        ("nats-ws", b"\x82\x90\0\0\0\0PUB s001 2\r\nhi\r\n"),
        ("mqtt", b"\x30\x08\x00\x04s001hi"),
        ("mqtt-ws", b"\x82\x8a\0\0\0\0\x30\x08\x00\x04s001hi"),
        ("redis", b"*3\r\n$7\r\nPUBLISH\r\n$4\r\ns001\r\n$2\r\nhi\r\n"),
    ],
)
def test_a_publication_in_bytes(name: str, publication: bytes) -> None:
    """Written out by hand from each protocol's text."""
    assert DIALECTS[name]().publication("s001", b"hi") == publication


@pytest.mark.parametrize(
    ("name", "preamble"),
    [
        ("nchan", b""),
        (
            "mqtt",
            b"\x10\x15\x00\x04MQTT\x04\x02\x00\x00\x00\x09c00000007\x82\x10\x00\x01\x00\x04s000\x00\x00\x04s001\x00",
        ),
        ("redis", b"*3\r\n$9\r\nSUBSCRIBE\r\n$4\r\ns000\r\n$4\r\ns001\r\n"),
    ],
)
def test_a_subscription_in_bytes(name: str, preamble: bytes) -> None:
    """Two subjects at once."""
    assert DIALECTS[name]().preamble(7, ["s000", "s001"]) == preamble


@pytest.mark.parametrize(
    ("size", "head"), [(125, b"\x82\xfd"), (126, b"\x82\xfe\x00\x7e"), (65_536, b"\x82\xff" + b"\0\0\0\0\0\1\0\0")]
)
def test_lengths_of_frames(size: int, head: bytes) -> None:
    """RFC 6455 5.2, each of the three forms, with four bytes of key."""
    frame = masked(2, b"x" * size)

    assert frame.startswith(head + b"\0\0\0\0x")
    assert len(frame) == len(head) + 4 + size


def connect(port: int, dialect: PeerDialect, number: int, subjects: list[str]) -> socket.socket:
    """A subscriber whose subscriptions are in force, or a publisher."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    got = b""
    opening = dialect.opening(subjects, "s001")
    connection.sendall(opening)
    while opening and b"\r\n\r\n" not in got:
        got += connection.recv(4096)
    connection.sendall(dialect.preamble(number, subjects))
    while subjects and dialect.settled not in got:
        got += connection.recv(4096)
    return connection


@pytest.mark.parametrize(
    "peer", [peer for peer in peers.PEERS.values() if not peer.missing()], ids=lambda peer: peer.name
)
def test_a_conversation(peer: peers.Peer) -> None:
    """What one publishes, another that subscribed receives; Channels is always here."""
    dialect = DIALECTS[peer.dialect]()
    with (
        peers.run(peer) as running,
        connect(running.port, dialect, 1, ["s000", "s001"]) as subscriber,
        connect(running.port, dialect, 2, []) as publisher,
    ):
        received = bytearray()

        def delivered() -> bool:
            # Anew each time: Nchan answers the upgrade before it subscribes.
            publisher.sendall(dialect.publication("s001", PAYLOAD))
            received.extend(subscriber.recv(65_536))
            return received.count(b"@#") > 2

        until(delivered)


def test_the_upgrade_is_that_of_the_rfc() -> None:
    """With the subprotocol where one is wanted."""
    text = upgrade("/mqtt", "mqtt").decode()

    assert text.startswith("GET /mqtt HTTP/1.1\r\n")
    assert "\r\nSec-WebSocket-Protocol: mqtt\r\n" in text
    assert text.endswith("\r\n\r\n")
