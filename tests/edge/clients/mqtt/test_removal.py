"""A subject that is removed, as clients of MQTT and of the protocol see it of each other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from fastpath.core.mqtt.packets import Filter
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar

LEVELS = pytest.mark.parametrize("level", [4, 5])


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@LEVELS
def test_a_removal_is_the_same_for_clients_of_mqtt_and_of_the_protocol(broker: Sidecar, level: int) -> None:
    """Who publishes an empty payload with retain removes the subject, and of a removal the payload is empty."""
    subject = topic = f"/removal/{level}"
    publish = {"subject": subject, "closure": "c"}
    with mqtt(broker, level=level) as one, WireClient(broker) as reader, WireClient(broker) as writer:
        one.subscribe(Filter(text=topic, qos=1, as_published=True) if level == 5 else topic)
        reader.subscribe(subject)
        for remove in (
            lambda: one.publish(topic, "", retain=True),
            lambda: writer.ask("publish", "published", content="", removed=True, fields={"why": "sold"}, **publish),
        ):
            writer.ask("publish", "published", content="old", fields={"a": "1"}, **publish)
            remove()
            assert one.messages(2) == [(topic, b"old", 1, level == 5), (topic, b"", 1, level == 5)]
            assert reader.message()[3:5] == ["old", {"a": "1"}]
            assert reader.message()[5]["removed"] is True
            with mqtt(broker, level=level) as late, WireClient(broker) as other:
                late.subscribe(topic)
                assert late.silent()
                assert other.subscribe(subject)[0].get("messages", 0) == 0
        one.publish(topic, "new", retain=True)
        with mqtt(broker, level=level) as late:
            late.subscribe(topic)
            found = late.message()
            assert (found.payload, found.retain, found.properties) == (b"new", True, {})


@pytest.mark.mosquitto
def test_mosquitto_pub_removes(broker: Sidecar) -> None:
    host, _, port = broker.ready["mqtt"][0].rpartition(":")
    where = ["-h", host, "-p", port, "-t", "/sensors/gone", "-r"]
    with WireClient(broker) as reader:
        reader.subscribe("/sensors/gone")
        for number, quality in enumerate("01"):  # without -q it is of QoS 0
            subprocess.run(["mosquitto_pub", *where, "-q", quality, "-m", "21.5"], check=True, timeout=10)
            assert reader.message()[3] == "21.5"
            subprocess.run(["mosquitto_pub", *where, "-q", quality, "-n"], check=True, timeout=10)
            assert (row := reader.message())[3:] == ["", None, {"removed": True}]
            assert row[1] == 2 * number
            with WireClient(broker) as late:
                assert "messages" not in late.subscribe("/sensors/gone")[0]


@LEVELS
@pytest.mark.parametrize("reaches", [True, False])
def test_a_session_that_missed_a_removal_gets_an_empty_payload(level: int, reaches: bool) -> None:
    """Also where what it has missed is not cached any more: it would keep what it had for ever."""
    lasting = {"clean": False} | ({"properties": {"session_expiry": 60}} if level == 5 else {})
    with Sidecar(listen=LISTEN, cache_messages=2) as broker:
        with MqttPeer(broker.ready["mqtt"][0], level) as one:
            one.connect("lasting", **lasting)
            one.subscribe("gone/+")
            one.publish("gone/a", "old", retain=True)
            assert one.message().payload == b"old"
        with mqtt(broker, level=level) as other:
            for _ in range(0 if reaches else 3):
                other.publish("gone/a", "between", retain=True)
            other.publish("gone/a", "", retain=True)
        with MqttPeer(broker.ready["mqtt"][0], level) as one:
            assert one.connect("lasting", **lasting).session_present
            found = one.message()
            assert (found.topic, found.payload, found.retain) == ("gone/a", b"", False)
            assert one.silent()
