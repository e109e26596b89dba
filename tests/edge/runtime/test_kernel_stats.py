"""What the kernel tells of a connection, from a real one, and the struct in which it does."""

from __future__ import annotations

import socket
import struct

from fastpath.edge.runtime.kernel_stats import network, read


def test_the_struct_of_linux() -> None:
    """linux/tcp.h: every number stands where it is looked for."""
    words = list(range(100, 124))
    raw = struct.pack("=8B24I4Q6I4Q", *range(8), *words, 1, 2, 3, 4, *range(200, 206), 301, 302_000, 303_000, 304)
    assert read(raw) == {
        "rtt_ms": 0.115,
        "rtt_var_ms": 0.116,
        "retransmits": 123,
        "unacked_segments": 104,
        "unsent_bytes": 202,
        "last_received_ms": 111,
        "bytes_received": 4,
        "bytes_acked": 3,
        "delivery_bytes_per_s": 301,
        "busy_ms": 302,
        "reader_limited_ms": 303,
    }


def test_a_real_connection() -> None:
    """What has been sent, and what the other side has not taken."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            other.sendall(b"x" * 1000)
            assert len(one.recv(1000, socket.MSG_WAITALL)) == 1000
            found = network(one.fileno())
            assert found is not None
            assert found["bytes_received"] == 1000
            one.setblocking(False)
            try:
                while True:
                    one.send(bytes(1 << 16))
            except BlockingIOError:
                pass
            full = network(one.fileno())
            assert full is not None
            assert full["unsent_bytes"] > 0
            assert one.fileno() >= 0, "it is still open"
            assert network(server.fileno()) is not None


def test_where_nothing_is_told() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert network(left.fileno()) is None
    assert network(10_000) is None
