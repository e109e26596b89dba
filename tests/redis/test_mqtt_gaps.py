"""Clients of MQTT on a node that could not read all of Redis' log: they are told of what they have missed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fastpath.core.mqtt.packets import Disconnect, PublishPacket
from fastpath.core.mqtt.reasons import Reason
from fastpath.engine.redis import entries
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.wire import WirePublisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.redis

PLAIN, RETAINED = "/cluster/plain", "/cluster/retained"
COUNT = 10


@contextmanager
def standing_still(sidecar: Sidecar) -> Iterator[None]:
    """The process does nothing meanwhile."""
    os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)


def publish(publisher: WirePublisher, number: int) -> None:
    """To both subjects."""
    rows = [[subject, str(number), None, {"retained": subject == RETAINED}] for subject in (PLAIN, RETAINED)]
    assert publisher.publish(*rows) == [number, number]


def trim(server: RedisServer) -> None:
    """Of each log only the newest entry is left."""
    for group in range(entries.GROUPS):
        server.call("XTRIM", entries.log_key("fastpath", group), "MAXLEN", 1)


def until_the_end(peer: MqttPeer) -> tuple[list[bytes], list[int]]:
    """What comes, and why the connection ends."""
    packets = peer.ended()
    return (
        [one.payload for one in packets if isinstance(one, PublishPacket)],
        [one.code for one in packets if isinstance(one, Disconnect)],
    )


def test_what_was_trimmed_before_its_node_had_read_it_is_told_to_each_client() -> None:
    """No message comes behind the gap; but for whom a retained one stands for it, and who asked for no more than QoS 0,
    goes on."""
    lasting = {"clean": False, "properties": {"session_expiry": 600}}
    with (
        RedisServer() as server,
        Sidecar(engine=server.url, listen=LISTEN) as one,
        Sidecar(engine=server.url) as other,
        WirePublisher(other) as publisher,
        mqtt(one, "lasts", **lasting) as lasts,
        mqtt(one, level=4) as ends,
        mqtt(one) as loose,
        mqtt(one, "stood", **lasting) as stood,
    ):
        for peer, subject, qos in ((lasts, PLAIN, 1), (ends, PLAIN, 1), (loose, PLAIN, 0), (stood, RETAINED, 1)):
            assert peer.subscribe(subject, qos=qos) == [qos]
        publish(publisher, 1)
        assert [peer.message().payload for peer in (lasts, ends, loose, stood)] == [b"1"] * 4
        with standing_still(one):
            for number in range(2, COUNT + 1):  # of which it may have been sent the first
                publish(publisher, number)
            trim(server)
        told = {peer: until_the_end(peer) for peer in (lasts, ends)}
        assert [codes for _, codes in told.values()] == [[Reason.UNSPECIFIED], []]
        assert all(payloads in ([], [b"2"]) for payloads, _ in told.values()), told
        publish(publisher, COUNT + 1)
        last = stood.message()
        while not last.retain:
            assert last.payload == b"2"
            last = stood.message()
        assert last.payload == str(COUNT).encode()
        assert stood.messages(1) == [(RETAINED, str(COUNT + 1).encode(), 1, False)]
        found = [loose.message().payload]
        while found[-1] != str(COUNT + 1).encode():
            found.append(loose.message().payload)
        assert len(found) < COUNT
        with MqttPeer(one.ready["mqtt"][0]) as again:
            assert not again.connect("lasts", **lasting).session_present
