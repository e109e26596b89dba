"""One attack on one sidecar, and what it costs a client that behaves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from tests.edge.wire import resident_bytes
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET

from .attacks import ATTACKS
from .flood import attack
from .witness import Witness

BEFORE_SECONDS = 0.5
MEMORY_BYTES_MAX = 256 << 20
"""What an attack may cost while it lasts: some fifty connections at a time have an outgoing queue of 4 MiB each."""


@contextlib.contextmanager
def attacked() -> Iterator[Sidecar]:
    """A sidecar of one process, which attackers and the well-behaved share, without any of the limits that are off."""
    with Sidecar(
        mode="rules",
        token_secret=SECRET,
        listen="clients://127.0.0.1:0?deflate=200,publishers://127.0.0.1:0",
        handshake_seconds=1,
        origins="https://good.example.com",
    ) as running:
        load_rights(running.control, rule(1, "everyone", "/**"))
        yield running


def measure(target: Sidecar, name: str) -> dict[str, float]:
    """Run the attack once; the 99th percentile of the latency of the well-behaved in ms, before and while, and more."""
    one = ATTACKS[name]
    memory = resident_bytes(target.pid)
    with Witness(target) as witness:
        time.sleep(BEFORE_SECONDS)  # what is measured is this time
        before = witness.mark()
        outcome = attack(name, getattr(target, one.flood().port), one.seconds)
        during = witness.mark()
    assert outcome.connects, "nothing was attacked"
    assert not set(outcome.ends) - {str(end) for end in one.ends}, outcome
    assert bool(outcome.ends) or not one.ends or not one.must_end, outcome
    grown = resident_bytes(target.pid) - memory
    assert grown < MEMORY_BYTES_MAX, f"{grown >> 20} MiB more"
    return {
        "before": before["p99_ms"],
        "during": during["p99_ms"],
        "usual": during["p50_ms"],
        "connects": outcome.connects,
        "sent_mib": outcome.sent / (1 << 20),
        "seconds": one.seconds,
    }
