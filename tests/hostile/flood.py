"""Many connections that send the same bytes as fast as they are taken, and come back when they are closed.

``python -m tests.hostile.flood ATTACK URL SECONDS`` runs one of attacks.py in a process of its own, as ``attack`` does.
It is a nice one: a real attack comes from another machine, and does not take the processor away from who is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.support.edge.wire import request
from tests.support.sidecar import ROOT

READ_BYTES = 1 << 16


@dataclass
class Flood:
    """An attack: ``connections`` send ``opening`` and then ``chunk`` again and again.

    ``read`` says whether they take what comes back, ``pace`` is the pause (s) of each between two chunks.
    """

    opening: bytes = b""
    chunk: bytes = b""
    connections: int = 5
    read: bool = True
    pace: float = 0.0
    head: bytes = field(default_factory=request)
    port: str = "client_url"
    connects_per_s: float = 1000.0
    """How often connections that were closed come back, all together."""


@dataclass
class Outcome:
    """What became of it: connections made, bytes sent and read, and with which codes they were closed."""

    connects: int = 0
    sent: int = 0
    received: int = 0
    ends: Counter[str] = field(default_factory=Counter)


class _Peer:
    def __init__(self, flood: Flood, address: tuple[str, int]) -> None:
        self.sock = socket.socket()
        self.sock.setblocking(False)
        if not flood.read:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(BlockingIOError):
            self.sock.connect(address)
        self.pending = memoryview(flood.head + flood.opening)
        self.tail = b""
        self.next = 0.0


def run(flood: Flood, url: str, seconds: float) -> Outcome:
    """Attack for so long."""
    host, _, port = url.removeprefix("ws://").removesuffix("/ws").rpartition(":")
    address = host, int(port)
    outcome = Outcome()
    end = time.monotonic() + seconds
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        peers = 0
        while (moment := time.monotonic()) < end:
            allowed = flood.connections + (moment - began) * flood.connects_per_s
            while peers < flood.connections and outcome.connects < allowed:
                peer = _Peer(flood, address)
                selector.register(peer.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, peer)
                peers += 1
                outcome.connects += 1
            for key, events in selector.select(0.01):
                if not _serve(flood, key.data, events, outcome):
                    selector.unregister(key.fileobj)
                    key.data.sock.close()
                    peers -= 1
            if flood.pace:
                time.sleep(0.001)  # the writable ones would have it spin
        for key in list(selector.get_map().values()):
            key.data.sock.close()
    return outcome


def _serve(flood: Flood, peer: _Peer, events: int, outcome: Outcome) -> bool:
    """Whether the connection goes on."""
    try:
        if events & selectors.EVENT_READ and flood.read:
            data = peer.sock.recv(READ_BYTES)
            if not data:
                outcome.ends[str(_code(peer.tail))] += 1
                return False
            outcome.received += len(data)
            peer.tail = (peer.tail + data)[-200:]
            if b"\x88" in data[-130:] and (code := _code(peer.tail)):
                outcome.ends[str(code)] += 1
                return False
        if events & selectors.EVENT_WRITE and time.monotonic() >= peer.next:
            if not peer.pending:
                if not flood.chunk:
                    return True
                peer.pending = memoryview(flood.chunk)
            count = peer.sock.send(peer.pending)
            outcome.sent += count
            peer.pending = peer.pending[count:]
            peer.next = time.monotonic() + flood.pace
    except BlockingIOError:
        pass
    except OSError:
        outcome.ends["reset"] += 1
        return False
    return True


def _code(tail: bytes) -> int:
    """The code of the close frame, or the status of the refusal, at the end of what came."""
    if tail.startswith(b"HTTP/1.1 ") and b" 101 " not in tail[:16]:
        return int(tail[9:12])
    at = tail.rfind(b"\x88")
    if at >= 0 and len(tail) >= at + 4 and tail[at + 1] == len(tail) - at - 2:
        return int.from_bytes(tail[at + 2 : at + 4])
    return 0


NICE = 10


def attack(name: str, url: str, seconds: float) -> Outcome:
    """Run one attack in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.flood", name, url, str(seconds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Outcome(**found | {"ends": Counter(found["ends"])})


def main(name: str, url: str, seconds: str) -> None:
    """The process."""
    from .attacks import ATTACKS  # it imports this module

    os.nice(NICE)
    outcome = run(ATTACKS[name].flood(), url, float(seconds))
    sys.stdout.write(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
