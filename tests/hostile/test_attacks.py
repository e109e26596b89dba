"""Every attack against a real sidecar, beside a client that behaves: it loses nothing and hardly waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient, WirePublisher, open_files, packed, undisturbed, wait_gone
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until

from .attacks import ATTACKS
from .measuring import TooSlow, measure, pair

P90_TIMES_MAX = 60
"""How much longer the slowest tenth may take under an attack than beside it: some milliseconds.

Where an attack may cost the median more, it is twice that: its connections fill their turns, one after the other."""


@pytest.fixture(scope="module")
def targets() -> Iterator[tuple[Sidecar, Sidecar]]:
    """One process that everybody shares and another beside it; they have to survive all of it."""
    with pair() as both:
        files = [open_files(one.pid) for one in both]
        yield both
        for one, before in zip(both, files, strict=True):
            wait_gone(one, before)
            assert one.process is not None
            assert one.process.poll() is None
            assert "Traceback" not in one.log, one.log[-4000:]


@pytest.fixture(scope="module")
def target(targets: tuple[Sidecar, Sidecar]) -> Sidecar:
    return targets[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_the_well_behaved_loses_nothing_and_hardly_waits(targets: tuple[Sidecar, Sidecar], name: str) -> None:
    found = measure(*targets, name)
    times_max = ATTACKS[name].times_max
    p90_times_max = max(P90_TIMES_MAX, 2 * times_max)
    if found["p50"] > found["elsewhere_p50"] * times_max or found["p90"] > found["elsewhere_p90"] * p90_times_max:
        raise TooSlow(f"the latency of the well-behaved, in ms: {found}")


def spoken(sidecar: Sidecar, *packets: bytes) -> list[Any]:
    """What a connection of the control socket is answered."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(sidecar.control)
        answers = []
        for packet in packets:
            peer.sendall(packet)
            size = int.from_bytes(peer.recv(4, socket.MSG_WAITALL))
            answers.append(msgspec.msgpack.decode(peer.recv(size, socket.MSG_WAITALL)))
        return answers


def test_a_control_message_that_is_replayed_changes_nothing() -> None:
    """On the same connection, on another one, or at a port where it does not belong."""
    deny = packed(
        1,
        "rules_diff",
        {"after": 1, "generation": 2, "rules": [rule(2, "everyone", "/secret/**", "both", allow=False)], "removed": []},
    )
    allow = packed(2, "rules_diff", {"after": 2, "generation": 3, "rules": [], "removed": [2]})
    check = packed(3, "check", {"subject": "/secret/one", "action": "subscribe", "token": ""})
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        load_rights(sidecar.control, rule(1, "everyone", "/**"), generation=1)
        assert [answer[1] for answer in spoken(sidecar, deny, allow)] == ["ok", "ok"]
        for answers in (spoken(sidecar, deny, check), spoken(sidecar, deny, deny, check)):
            assert all(
                answer[1:] == ["error", {"code": "stale", "reason": "generation 3 is in force, not 1"}]
                for answer in answers[:-1]
            )
            assert answers[-1][2]["allowed"], "the rule that was taken back stays taken back"
        with undisturbed(sidecar), WirePublisher(sidecar, hello=False) as publisher:
            publisher.send(deny)
            assert publisher.closed()[0] == 4500
        with WireClient(sidecar) as client:
            client.frame(2, deny)
            assert client.closed()[0] == 4500
        with Control(sidecar.control) as control:
            assert control.hello()["generation"] == 3


def test_a_token_of_another_client_or_time_gives_nothing(target: Sidecar) -> None:
    """Replayed ``connect`` and ``token`` commands: what counts is the token in them, not who sent it first."""
    with WireClient(target) as client:
        client.say("connect", token=mint("ann", hours=-1))
        assert client.closed() == (4007, "token_expired")
    with WireClient(target) as client:
        assert client.ask("connect", "connected", token=mint("ann"))["user"] == "ann"
        answer = client.ask("token", "error", token=mint("bob"))
        assert (answer["code"], answer["reason"]) == ("bad_token", "the token is another user's")


@pytest.mark.slow
def test_memory_that_is_used_up_refuses_what_is_new_until_there_is_room_again() -> None:
    """Over two workers: of the first one's figures, told to the other."""
    with Sidecar(workers=2, cache_seconds=1, memory_bytes_max=1 << 40) as sidecar:
        used = used_bytes(sidecar)
    limit = used + (100 << 20)
    with Sidecar(workers=2, cache_seconds=3, memory_bytes_max=limit) as sidecar, ExitStack() as stack:
        there = [stack.enter_context(WireClient(sidecar)) for _ in range(8)]
        for client in there:
            client.subscribe("/quiet/one")
        publisher = stack.enter_context(WirePublisher(sidecar))
        content = "x" * 500_000
        number = 0

        def filled() -> bool:
            nonlocal number
            number += 1
            publisher.publish(*[["/fill/one", f"{number} {at} {content}"] for at in range(4)])
            return used_bytes(sidecar) > limit and refused(sidecar)

        until(filled, 30)
        for client in there:
            # On both workers.
            result = until(lambda client=client: asked(client, "/new/one"))
            assert result["reason"] == "the server's memory is full; retry later"
        publisher.publish(["/quiet/one", "still there"])
        for client in there:
            assert client.message()[3] == "still there"
        until(lambda: not refused(sidecar), 30)
        until(lambda: "new load is taken again" in sidecar.log)  # a thread writes the log


def asked(client: WireClient, subject: str) -> dict[str, Any] | None:
    """The result of a subscription that is refused by a limit."""
    [result] = client.subscribe(subject)
    if result.get("error") != "limit":
        client.ask("unsubscribe", "unsubscribed", subjects=[subject])
        return None
    return result


def used_bytes(sidecar: Sidecar) -> int:
    """The memory of all workers."""
    with Control(sidecar.control) as control:
        return int(control.stats()["memory_bytes"])


def refused(sidecar: Sidecar) -> bool:
    """Whether nobody new comes in, on either worker."""
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(sidecar)) for _ in range(6)]
        return all(_overloaded(client) for client in clients)


def _overloaded(client: WireClient) -> bool:
    client.say("ping")
    opcode, payload = client.next_frame()
    return opcode == 8 and payload.startswith(b"\x0f\xa6overloaded: the server's memory is full")
