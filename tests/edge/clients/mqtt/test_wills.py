"""Wills of clients of MQTT: when they are published, and when they are not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.core.mqtt.packets import Will
from tests.support.edge.mqtt import LISTEN, MqttPeer, kept, mqtt
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.mark.slow
def test_a_will_waits_for_its_delay_and_not_longer_than_the_session(broker: Sidecar) -> None:
    with mqtt(broker) as reader:
        reader.subscribe("delayed/+")
        will = Will(topic="delayed/1", payload=b"x", properties={"will_delay": 1})
        with MqttPeer(broker.ready["mqtt"][0]) as one:
            one.connect("delayed", will=will, properties={"session_expiry": 60})
        with mqtt(broker, "delayed", clean=False, properties={"session_expiry": 60}):
            pass  # it came back in time
        with MqttPeer(broker.ready["mqtt"][0]) as one:
            will.topic = "delayed/2"
            one.connect("delayed2", will=will, properties={"session_expiry": 60})
        assert reader.messages(1) == [("delayed/2", b"x", 0, False)]


@pytest.mark.slow
def test_a_will_needs_the_right_that_its_client_has_when_it_is_published() -> None:
    with ruled(rule(1, "/wills/*", "group:staff", action="both"), listen=LISTEN) as rules:
        will = Will(topic="/wills/a", payload=b"x", properties={"will_delay": 2})
        staff = {"user": "x", "properties": {"session_expiry": 60}}
        for name in ("alice", "bob", "carol"):
            token = mint(name, groups=["staff"], generation=rules.generation).encode()
            will.topic = f"/wills/{name}"
            with mqtt(rules.sidecar, name, password=token, will=will, **staff) as one:
                assert one.silent()
        gone = {"uid": "alice", "user": "alice", "superuser": False, "generation": rules.generation + 1}
        rules.change(
            users=[gone | {"active": True, "groups": []}, gone | {"uid": "bob", "active": False, "groups": []}]
        )
        token = mint("carol", groups=["staff"], generation=rules.generation).encode()
        with mqtt(rules.sidecar, "ear", user="x", password=token) as ear:
            ear.subscribe("/wills/#")
            ear.sock.settimeout(2 * PATIENCE_SECONDS)
            assert ear.messages(1) == [("/wills/carol", b"x", 0, False)]
            assert ear.silent()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_will_that_waits_is_published_by_the_process_that_comes_after(tmp_path: Path, how: str) -> None:
    """Whether its client was away before, or was cut off by the end of the process; not for who has said goodbye."""
    lasting = {"properties": {"session_expiry": 600}}
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with MqttPeer(sidecar.ready["mqtt"][0]) as ear:
            ear.connect("ear", **lasting)
            ear.subscribe("after/+")
            ear.disconnect()
        peers = []
        for name in ("away", "polite", "connected"):
            peers.append(MqttPeer(sidecar.ready["mqtt"][0]))
            delay = 1 if name == "connected" else 2
            will = Will(
                topic=f"after/{name}", payload=b"x", qos=1, properties={"will_delay": delay, "content_type": "t"}
            )
            assert peers[-1].connect(name, will=will, **lasting).code == 0
        peers[1].disconnect()
        peers[0].sock.close()
        kept(sidecar, 4)
        getattr(sidecar, how)()
        sidecar.start()
        with mqtt(sidecar, "ear", clean=False, **lasting) as ear:
            found = [ear.message()]
            while len({one.topic for one in found}) < 2:  # killed as it was due, it may come twice
                found.append(ear.message())
            assert {one.topic for one in found} == {"after/away", "after/connected"}
            assert all(one.properties["content_type"] == "t" for one in found)
        for peer in peers:
            peer.sock.close()


@pytest.mark.slow
def test_a_will_waits_for_the_rights_that_count_then(tmp_path: Path) -> None:
    """After a restart Django's rules come later than the will is due; who has lost the right leaves none."""
    settings = {"listen": LISTEN, "journal": "interval", "data": tmp_path, "mode": "rules", "token_secret": SECRET}
    may = rule(1, "/wills/*", "group:staff", action="both")
    with Sidecar(**settings) as sidecar:
        rules = Rules(sidecar)
        with rules.control:
            rules.full(may)
            for name in ("alice", "bob"):
                token = mint(name, groups=["staff"], generation=rules.generation).encode()
                will = Will(topic=f"/wills/{name}", payload=b"x", properties={"will_delay": 8})
                who = {"user": "x", "password": token, "properties": {"session_expiry": 600}}
                with mqtt(sidecar, name, will=will, **who) as one:
                    assert one.silent()
        due = time.monotonic() + 9
        sidecar.stop()
        sidecar.start()
        until(lambda: time.monotonic() > due)  # nobody is told that it is due and waits
        rules = Rules(sidecar)
        with rules.control, MqttPeer(sidecar.ready["mqtt"][0]) as ear:
            token = mint("carol", groups=["staff"], generation=2).encode()
            ear.connect("ear", user="x", password=token)
            ear.sock.settimeout(2 * PATIENCE_SECONDS)
            gone = {"uid": "alice", "user": "alice", "active": True, "superuser": False, "groups": [], "generation": 2}
            rules.generation = 1
            rules.full(may, users=(gone,))
            ear.subscribe("/wills/#")
            assert ear.messages(1) == [("/wills/bob", b"x", 0, False)]
            assert ear.silent()
