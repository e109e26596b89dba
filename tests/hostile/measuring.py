"""One attack on one sidecar, and what it costs a client that behaves: beside the same attack on another sidecar."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.edge.wire import resident_bytes
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET

from .attacks import ATTACKS
from .flood import Outcome, attack
from .witness import Witness

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
        load_rights(running.control, rule(1, "everyone", "/**"), rule(2, "everyone", "/attacked/**", action="publish"))
        yield running


class TooSlow(AssertionError):
    """The well-behaved got everything, and waited too long for it."""


@contextlib.contextmanager
def pair() -> Iterator[tuple[Sidecar, Sidecar]]:
    """The target, and another sidecar that is attacked to see what an attack costs by using up the machine."""
    with attacked() as target, attacked() as other:
        yield target, other


def measure(target: Sidecar, other: Sidecar, name: str) -> dict[str, float]:
    """Attack the other sidecar, then the target; the latency (ms) of those who behave at the target, and more.

    Both times the attacker and the attacked use the same processors, so the two differ by what the attack does to those
    who share the attacked process.
    """
    with Witness(target) as witness:
        _attack(other, name)
        elsewhere = witness.mark()
        outcome = _attack(target, name)
        here = witness.mark()
    return {
        "elsewhere_p50": elsewhere["p50_ms"],
        "elsewhere_p90": elsewhere["p90_ms"],
        "p50": here["p50_ms"],
        "p90": here["p90_ms"],
        "elsewhere_p99": elsewhere["p99_ms"],
        "p99": here["p99_ms"],
        "connects": outcome.connects,
        "sent_mib": outcome.sent / (1 << 20),
        "seconds": ATTACKS[name].seconds,
    }


def _attack(sidecar: Sidecar, name: str) -> Outcome:
    """Run the attack once; it ends as it has to, and costs no more memory than it may."""
    one = ATTACKS[name]
    memory = resident_bytes(sidecar.pid)
    outcome = attack(name, getattr(sidecar, one.flood().port), one.seconds)
    assert outcome.connects, "nothing was attacked"
    assert not set(outcome.ends) - {str(end) for end in one.ends}, outcome
    if one.must_end and one.ends and not outcome.ends:
        raise TooSlow(f"the attack did not come to any end in its time: {outcome}")
    grown = resident_bytes(sidecar.pid) - memory
    assert grown < MEMORY_BYTES_MAX, f"{grown >> 20} MiB more"
    return outcome
