"""MQTT from outside, in both versions: what things publish and hear, beside the clients of the protocol."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from fastpath.client.control.client import Control
from fastpath.core.delivery.audience import Client, Topic
from fastpath.core.delivery.link import PauseReason
from fastpath.core.mqtt.decoding import Splitter, decode
from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.outgoing import Outgoing
from fastpath.core.mqtt.packets import (
    Ack,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    Pingreq,
    Pingresp,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
)
from fastpath.core.mqtt.reasons import V5, Reason
from fastpath.core.mqtt.records import encode_record
from fastpath.core.mqtt.session import MqttSession, Subscription
from fastpath.core.mqtt.talk import Talk
from fastpath.core.protocol.codec import MQTT5
from fastpath.core.protocol.messages import Message
from fastpath.edge.clients.client_stream import ClientStreamLink
from fastpath.edge.clients.mqtt.stream import MqttStream, MqttStreams
from fastpath.edge.runtime.runtime import Runtime
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.certificates import Certificate
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.rules import rule, ruled
from tests.support.edge.sessions import client_of
from tests.support.edge.wire import WireClient
from tests.support.hook import Answering, denying, named
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import PATIENCE_SECONDS, until

IBM = "/stocks/us/IBM"
LEVELS = pytest.mark.parametrize("level", [4, 5])


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN, handshake_seconds=2) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def row(browser: WireClient) -> list[Any]:
    """The next message that a client of the protocol gets."""
    while True:
        found = browser.next()
        if isinstance(found, list):
            return found


@LEVELS
def test_a_thing_and_a_browser_hear_each_other(broker: Sidecar, level: int) -> None:
    subject = f"/hear/{level}/a"
    with mqtt(broker, level=level) as thing, WireClient(broker) as browser:
        browser.ask("subscribe", "subscribed", subjects=[f"/hear/{level}/*"])
        assert thing.subscribe(f"/hear/{level}/+") == [1]
        browser.say("publish", subject=subject, content="1", fields={"bid": "2"})
        found = thing.message()
        assert (found.topic, found.payload, found.qos, found.retain) == (subject, b"1", 1, False)
        assert found.properties == ({"user_property": [("bid", "2")]} if level == 5 else {})
        assert thing.publish(subject, b"\xff\0", properties={"content_type": "x"} if level == 5 else {}) == 0
        assert thing.message().payload == b"\xff\0"
        assert row(browser)[3] == "1"
        assert row(browser)[3] in (b"\xff\0", {"b": "/wA="})


@pytest.mark.parametrize("form", ["stream", "poll"])
def test_a_thing_and_a_session_over_http_hear_each_other(broker: Sidecar, form: str) -> None:
    subject = f"/hear/{form}/a"
    with mqtt(broker) as thing, client_of(broker, form) as browser, Control(broker.control) as control:
        browser.ask("subscribe", "subscribed", subjects=[subject])
        assert thing.subscribe(subject) == [1]
        browser.say("publish", subject=subject, content="1", fields={"bid": "2"})
        assert (found := thing.message()).payload == b"1"
        assert found.properties == {"user_property": [("bid", "2")]}
        assert thing.publish(subject, b"\xff\0") == 0
        assert [row(browser)[3], row(browser)[3]] == ["1", {"b": "/wA="}]
        rows = {(one["transport"], one["over"], one["encoding"]) for one in control.clients()["clients"]}
        assert {("mqtt", "tcp", "mqtt5"), (form, "tcp", "json")} <= rows


@LEVELS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_with_any_quality(broker: Sidecar, level: int, qos: int) -> None:
    topic = f"quality/{level}/{qos}"
    with mqtt(broker, level=level) as one, mqtt(broker, level=level) as other:
        assert one.subscribe(Filter(text=topic, qos=2)) == [1]
        other.publish(topic, "x", qos)
        if qos == 2:
            other.send(PublishPacket(topic=topic, payload=b"x", qos=2, dup=True, packet_id=other.ids))
            assert other.receive(Ack).type == Type.PUBREC
            other.send(Ack(type=Type.PUBREL, packet_id=other.ids))
            assert other.receive(Ack) == Ack(type=Type.PUBCOMP, packet_id=other.ids)
        assert one.messages(1) == [(topic, b"x", min(qos, 1), False)]
        assert one.silent()


@LEVELS
def test_retained_messages_and_their_removal(broker: Sidecar, level: int) -> None:
    topic = f"kept/{level}"
    with mqtt(broker, level=level) as one:
        one.publish(topic, "old", retain=True)
        one.publish(topic, "new", retain=True)
        one.publish(topic, "not kept")
    with mqtt(broker, level=level) as one, mqtt(broker, level=level) as later:
        one.subscribe(topic)
        assert one.messages(1) == [(topic, b"new", 1, True)]
        one.subscribe("kept/+/#", topic)  # each time anew
        assert one.messages(1) == [(topic, b"new", 1, True)]
        one.publish(topic, b"", retain=True)
        assert one.messages(1) == [(topic, b"", 1, False)]
        later.subscribe(topic)
        assert later.silent()


def test_what_is_retained_is_looked_for_in_turns() -> None:
    """All that runs for a client is held against all filters of a packet: nobody waits for that but the client."""

    async def resend() -> list[tuple[int, bool]]:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        link = SimpleNamespace(client=SimpleNamespace(subscriptions=topics), closing=False, holds=[])
        over = asyncio.Event()

        def hold(why: int, held: bool) -> None:
            link.holds.append((why, held))
            if not held:
                over.set()

        link.hold = hold
        stream = MqttStream(runtime, cast(ClientStreamLink, link))
        stream.resend(filters, ([*topics], {}))
        assert link.holds == [(PauseReason.SEARCHING, True)]
        await over.wait()
        return cast("list[tuple[int, bool]]", link.holds)

    topics = dict.fromkeys(Topic(f"/a/{number}", number, 1) for number in range(100))
    filters = [Subscription(Filter(text="b/+"), ["/b/*"], 0, True)] * 100
    assert asyncio.run(resend()) == [(PauseReason.SEARCHING, True), (PauseReason.SEARCHING, False)]


def test_what_is_retained_of_many_subjects_comes_again_for_another_filter(broker: Sidecar) -> None:
    with mqtt(broker) as one:
        one.subscribe("again/#", qos=0)
        for number in range(300):
            one.publish(f"again/{number}", "x", retain=True)
        assert one.silent() is False
        one.packets.clear()
        one.send(SubscribePacket(packet_id=9, filters=[Filter(text="again/+", qos=0)]))
        one.send(SubscribePacket(packet_id=10, filters=[Filter(text="again/7", qos=0)]))
        found = [topic for topic, _, _, retained in one.messages(301) if retained]
        assert sorted(found) == sorted([f"again/{number}" for number in range(300)] + ["again/7"])
        assert one.silent()


def aged(properties: dict[str, Any]) -> dict[str, Any]:
    """The properties, with the minute that a message had to live when it was sent, of which it may have spent some."""
    if 0 < properties.get("message_expiry", 0) <= 60:
        return properties | {"message_expiry": 60}
    return properties


def test_an_empty_payload_removes_what_is_retained_whatever_its_properties(broker: Sidecar) -> None:
    for at, more in enumerate(({"message_expiry": 60}, {"user_property": [("a", "b"), ("a", "c")]})):
        with mqtt(broker) as one, mqtt(broker) as other:
            one.publish(f"remove/{at}", "old", retain=True)
            other.subscribe(Filter(text=f"remove/{at}", handling=2))
            one.publish(f"remove/{at}", "", retain=True, properties=more)
            assert aged(other.message().properties) == more
            one.subscribe(f"remove/{at}")
            assert one.silent()


def test_overlapping_filters_have_one_message_with_the_highest_quality_and_all_identifiers(broker: Sidecar) -> None:
    with mqtt(broker) as one:
        one.publish("over/lap", "kept", retain=True)
        one.subscribe("over/#", qos=0, subscription_identifier=7)
        assert one.messages(1) == [("over/lap", b"kept", 0, True)]
        one.subscribe("over/+", qos=1, subscription_identifier=300)
        found = one.message()
        assert (found.qos, found.retain, sorted(found.properties["subscription_identifier"])) == (1, True, [7, 300])
        one.publish("over/lap", "x")
        assert sorted(one.message().properties["subscription_identifier"]) == [7, 300]
        assert one.unsubscribe("over/+", "nothing") == [0, Reason.NO_SUBSCRIPTION_EXISTED]
        one.publish("over/lap", "y")
        assert one.message().qos == 0


def test_options_of_a_subscription(broker: Sidecar) -> None:
    with mqtt(broker) as one, mqtt(broker) as other:
        other.publish("options/a", "kept", retain=True)
        one.subscribe(Filter(text="options/a", qos=1, no_local=True, as_published=True, handling=2))
        one.publish("options/a", "own")
        one.publish("options/a", "own", 0)
        other.publish("options/a", "theirs", retain=True)
        assert one.messages(1) == [("options/a", b"theirs", 1, True)]
        assert one.silent()
        other.subscribe(Filter(text="options/#", handling=1))
        assert other.messages(1)[0][1] == b"theirs"
        other.subscribe(Filter(text="options/#", handling=1))
        assert other.silent()


def test_nobody_gets_more_than_it_acknowledges(broker: Sidecar) -> None:
    with mqtt(broker, properties={"receive_maximum": 2}) as one, mqtt(broker) as other:
        one.subscribe("window")
        for number in range(5):
            other.publish("window", str(number))
        first = [one.message(acknowledge=False) for _ in range(2)]
        assert one.silent()
        one.send(Ack(type=Type.PUBACK, packet_id=first[1].packet_id))
        assert one.message(acknowledge=False).payload == b"2"
        assert one.silent()
        one.send(Ack(type=Type.PUBACK, packet_id=first[0].packet_id))
        assert one.message().payload == b"3"
        assert one.message().payload == b"4"


def test_aliases_expiry_and_the_size_of_packets(broker: Sidecar) -> None:
    with mqtt(broker, properties={"topic_alias_maximum": 1, "maximum_packet_size": 60}) as one:
        one.subscribe("size/#")
        one.publish("size/a", "1", properties={"topic_alias": 3})
        one.publish("", "2", properties={"topic_alias": 3})
        one.publish("size/a", "x" * 100)
        one.publish("size/b", "3", properties={"message_expiry": 60})
        found = [one.message() for _ in range(3)]
        assert [(each.topic, each.payload) for each in found] == [("size/a", b"1"), ("", b"2"), ("size/b", b"3")]
        properties = [aged(each.properties) for each in found]
        assert properties == [{"topic_alias": 1}, {"topic_alias": 1}, {"message_expiry": 60}]
        one.send(PublishPacket(topic="size/a", payload=b"x", properties={"topic_alias": 33}))
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.TOPIC_ALIAS_INVALID]


@LEVELS
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x10\x0d\0\4MQTT\4\2\0\x3c\0\1a", Reason.PROTOCOL_ERROR),  # CONNECT again
        (b"\x30\xff\xff\xff\x7f", Reason.PACKET_TOO_LARGE),
        (b"\x30\x04\0\2a+", Reason.TOPIC_INVALID),
        (b"\x50\x02\0\1", Reason.PROTOCOL_ERROR),
        (b"\xd0\0", Reason.PROTOCOL_ERROR),  # PINGRESP
        (b"\x00\x00", Reason.MALFORMED),
    ],
)
def test_a_fault_ends_the_connection_with_its_reason(broker: Sidecar, level: int, data: bytes, code: Reason) -> None:
    with mqtt(broker, level=level) as one, mqtt(broker) as other:
        one.send_bytes(data)
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == ([code] if level == 5 else [])
        assert other.silent()


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\x10\x0d\0\4MQTT\6\2\0\x3c\0\1a", Connack(code=1)),
        (b"\x10\x0c\0\4MQTT\4\0\0\x3c\0\0", Connack(code=2)),  # no client id, and a session that lasts
        (b"\xc0\0", None),
        (b"GET / HTTP/1.1\r\n\r\n", None),
    ],
)
def test_who_does_not_begin_well_is_not_let_in(broker: Sidecar, data: bytes, answer: Connack | None) -> None:
    with MqttPeer(broker.ready["mqtt"][0], 4) as one:
        one.send_bytes(data)
        assert one.ended() == ([answer] if answer is not None else [])


def test_enhanced_authentication_is_refused_and_a_client_without_an_id_gets_one(broker: Sidecar) -> None:
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.connect("a", properties={"authentication_method": "x"}).code == Reason.BAD_AUTHENTICATION_METHOD
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.connect(keep_alive=120).properties["assigned_client_id"].startswith("fastpath-")
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.connect(keep_alive=120).properties["server_keep_alive"] == 60


@pytest.mark.slow
def test_who_is_silent_for_longer_than_its_keep_alive_is_cut_off(broker: Sidecar) -> None:
    with mqtt(broker, keep_alive=1) as one:
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.KEEP_ALIVE_TIMEOUT]
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.ended() == []  # no CONNECT in time


def test_topics_of_the_servers_own_are_closed(broker: Sidecar) -> None:
    with mqtt(broker) as one, mqtt(broker, level=4) as old:
        assert one.subscribe("$SYS/#", "#", "$share/g/$SYS/#") == [1, 1, 1]
        assert one.publish("$SYS/x", "1") == Reason.TOPIC_INVALID
        assert old.publish("$SYS/x", "1") == 0
        assert one.publish("/__sys__/x/y", "1") == Reason.NOT_AUTHORIZED
        old.send(PublishPacket(topic="/__sys__/x/y", payload=b"1", qos=1, packet_id=3))
        assert old.ended() == []  # MQTT 3.1.1 has no other way to say so
        assert not [each for each in one.packets if "sys" in getattr(each, "topic", "").lower()]


def test_what_lives_among_mqtt_clients_is_met_by_who_names_it_alone(broker: Sidecar) -> None:
    with mqtt(broker) as one, WireClient(broker) as browser:
        browser.ask("subscribe", "subscribed", subjects=["/**", "/__mqtt__/named/**"])
        one.publish("unnamed/a", "of nobody's")
        one.publish("named/a", "of whoever names it")
        found = next(content for content in iter(lambda: row(browser)[3], None) if str(content).startswith("of"))
        assert found == "of whoever names it"


def test_over_a_websocket(broker: Sidecar) -> None:
    address = broker.ready["clients"][0]
    with MqttPeer(address, websocket=True) as one, mqtt(broker) as other:
        assert one.connect().code == 0
        one.subscribe("socket/#", qos=0)
        for number in range(3):
            other.publish("socket/a", str(number))
        assert [payload for _, payload, _, _ in one.messages(3)] == [b"0", b"1", b"2"]
        one.send_bytes(b"\xc0")
        one.send_bytes(b"\0\xc0\0")  # packets need not begin with a message
        one.receive(Pingresp)
        one.receive(Pingresp)
        one.send_bytes(b"\0\0")
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.MALFORMED]


def test_who_asks_on_and_on_and_reads_nothing_is_ended(broker: Sidecar) -> None:
    """Pings of a WebSocket have answers, too, which wait where the client does not read them."""
    host, _, port = broker.ready["clients"][0].rpartition(":")
    upgrade = (
        "GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    said = encode(ConnectPacket(level=5, client_id="deaf"), 5)
    pings = memoryview((b"\x89\xfd" + bytes(4 + 125)) * 1000)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(5)
        sock.connect((host, int(port)))
        sock.sendall(upgrade.encode())
        assert b" 101 " in sock.recv(4096)
        sock.sendall(bytes((0x82, 0x80 | len(said))) + bytes(4) + said)
        sock.setblocking(False)
        begun = 0

        def ended() -> bool:
            nonlocal begun
            with suppress(OSError):
                begun = (begun + sock.send(pings[begun:])) % len(pings)
            return "what it is answered is not read" in broker.log

        until(ended, 20)


def test_tls_and_the_proxy_protocol(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    listen = f"clients://127.0.0.1:0,{certificate.url('mqtt')},mqtt://127.0.0.1:0?proxy=v1"
    with Sidecar(listen=listen) as sidecar:
        secure, proxied = sidecar.ready["mqtt"]
        with MqttPeer(secure, tls=certificate.trusting()) as one:
            one.connect("secure")
            one.subscribe("a", qos=0)
            one.publish("a", "x")
            assert one.messages(1) == [("a", b"x", 0, False)]
            with MqttPeer(proxied, first=b"PROXY TCP4 10.1.2.3 10.0.0.1 5000 1883\r\n") as other:
                other.connect("proxied")
                with Control(sidecar.control) as control:
                    found = control.clients()["clients"]
                shown = {each["program"]: (each["transport"], each["address"]) for each in found}
                assert shown["MQTT 5 proxied"] == ("mqtt", "10.1.2.3")
                assert shown["MQTT 5 secure"][0] == "mqtt"


def test_rights_are_those_of_the_token_and_end_within_a_second() -> None:
    with ruled(rule(1, "/stocks/**"), rule(2, "/orders/**", action="publish"), listen=LISTEN) as rules:
        sidecar = rules.sidecar
        token = mint("alice", generation=rules.generation).encode()
        with MqttPeer(sidecar.ready["mqtt"][0]) as one:
            assert one.connect("a", user="x", password=token + b"x").code == Reason.BAD_USER_OR_PASSWORD
        with MqttPeer(sidecar.ready["mqtt"][0], 4) as one:
            assert one.connect("a", user="x", password=token + b"x").code == 4
        for level in (4, 5):
            with mqtt(sidecar, f"a{level}", level, user="alice", password=token) as one:
                assert one.subscribe("/stocks/us/IBM", "/orders/1", "/stocks/#") == [1, 0x80, 1]
                assert one.publish("/orders/1", "x") == 0
        with mqtt(sidecar, "a", user="alice", password=token) as one, rules.publisher() as publisher:
            assert one.publish(IBM, "x") == Reason.NOT_AUTHORIZED
            one.subscribe("/stocks/#")
            publisher.publish([IBM, "1"])
            assert one.messages(1) == [(IBM, b"1", 1, False)]
            rules.change(removed=[1])
            assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.NOT_AUTHORIZED]


@LEVELS
def test_another_implementation_of_the_client(broker: Sidecar, level: int) -> None:
    found: list[tuple[str, bytes, int]] = []

    def heard(client: PahoClient, userdata: object, message: MQTTMessage) -> None:
        found.append((message.topic, message.payload, message.qos))

    client = PahoClient(CallbackAPIVersion.VERSION2, client_id=f"paho{level}", protocol=MQTTProtocolVersion(level))
    client.on_message = heard
    client.on_connect = lambda *_: client.subscribe(f"paho/{level}/#", 1)
    client.on_subscribe = lambda *_: [client.publish(f"paho/{level}/a", str(qos), qos) for qos in range(3)]
    host, _, port = broker.ready["mqtt"][0].rpartition(":")
    client.connect(host, int(port))
    client.loop_start()
    try:
        until(lambda: len(found) == 3)
    finally:
        client.disconnect()
        client.loop_stop()
    assert found == [(f"paho/{level}/a", str(qos).encode(), min(qos, 1)) for qos in range(3)]


@pytest.mark.mosquitto
def test_mosquitto_pub_and_sub(broker: Sidecar) -> None:
    host, _, port = broker.ready["mqtt"][0].rpartition(":")
    where = ["-h", host, "-p", port, "-q", "1", "-t", "/sensors/kitchen"]
    with WireClient(broker) as browser:
        browser.ask("subscribe", "subscribed", subjects=["/sensors/kitchen"])
        subprocess.run(["mosquitto_pub", *where, "-r", "-m", "21.5"], check=True, timeout=10)
        assert row(browser)[3] == "21.5"
    heard = subprocess.run(
        ["mosquitto_sub", *where, "-V", "mqttv5", "-C", "1"], check=True, timeout=10, capture_output=True
    )
    assert heard.stdout == b"21.5\n"


def test_packets_in_one_piece_are_all_handled(broker: Sidecar) -> None:
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        one.send(ConnectPacket(level=5, client_id="pieces"))
        one.send_bytes(b"\xc0\0" * 3000)
        one.send(Pingreq())
        assert one.receive(Connack).code == 0
        for _ in range(3001):
            one.receive(Pingresp)


def test_a_hook_decides() -> None:
    with Sidecar(listen=LISTEN, mode="custom", hook_seconds=3) as sidecar, Answering(sidecar.control, named) as hook:
        with mqtt(sidecar, "a", user="x", password=b"ann") as one:
            question = hook.wait("connect")
            assert (question["token"], question["headers"]) == ("ann", {"user-agent": "MQTT 5"})
            assert one.subscribe("/stocks/+", "/stocks/a") == [1, 1]
            assert one.publish("/stocks/a", "x") == 0
            assert one.messages(1) == [("/stocks/a", b"x", 1, False)]
            hook.rule = denying("subscribe", "publish")
            assert one.subscribe("/orders/a") == [0x80]
            assert one.publish("/orders/a", "x") == Reason.NOT_AUTHORIZED
        hook.rule = denying("connect")
        with MqttPeer(sidecar.ready["mqtt"][0]) as one:
            assert one.connect("b", user="x", password=b"bob").code == Reason.NOT_AUTHORIZED
        with MqttPeer(sidecar.ready["mqtt"][0], 4) as one:
            assert one.connect("b", user="x", password=b"bob").code == 5


@pytest.mark.slow
def test_what_was_acknowledged_and_retained_is_there_after_a_crash(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="batch", data=tmp_path) as sidecar:
        with mqtt(sidecar) as one:
            one.publish("kept/a", b"\xff1", retain=True)
            one.publish("kept/b", "2", retain=True)
            one.publish("kept/b", b"", retain=True)
        sidecar.kill()
        sidecar.start()
        with mqtt(sidecar) as one:
            one.subscribe("kept/#")
            assert one.messages(1) == [("kept/a", b"\xff1", 1, True)]
            assert one.silent()


def test_a_crowd_hears_the_same_and_who_does_not_read_is_closed_alone() -> None:
    with Sidecar(listen=LISTEN, outbox_bytes_max=1 << 20) as sidecar, ExitStack() as stack:
        address = sidecar.ready["mqtt"][0]
        crowd = [stack.enter_context(MqttPeer(address, level)) for level in (4, 5) for _ in range(3)]
        deaf = stack.enter_context(MqttPeer(address, receive_bytes=4096))
        web = stack.enter_context(MqttPeer(sidecar.ready["clients"][0], websocket=True))
        for one in (*crowd, web, deaf):
            one.connect()
            one.subscribe("/crowd/+", qos=0)
        with mqtt(sidecar) as publisher:
            payloads = [f"{number} {'x' * 50_000}".encode() for number in range(60)]
            for payload in payloads:
                publisher.publish("/crowd/a", payload)
                for one in (*crowd, web):
                    assert one.messages(1) == [("/crowd/a", payload, 0, False)]
            until(lambda: "name=slow_consumer" in sidecar.log)
            assert sidecar.log.count("name=slow_consumer") == 1


class Written:
    """A link to one end of a pair of sockets; ``client`` is what the broker has of it, with what was written alone."""

    def __init__(self, stack: ExitStack, runtime: Runtime, text: str) -> None:
        ours, self.peer = (stack.enter_context(one) for one in socket.socketpair())
        self.fd, self.socket, self.closing = ours.fileno(), SimpleNamespace(direct=True), False
        self.client = SimpleNamespace(queue=None, link=self)
        self.alone: list[int] = []
        self.stream = MqttStream(runtime, cast(ClientStreamLink, self))
        self.session = MqttSession("name", V5, 60)
        self.session.subscribe(Subscription(Filter(text=text, qos=1), ["/a/b"], 0, True))
        outgoing = Outgoing(self.session, self.stream.talk, self.stream, 100, 0, 0, 1000)
        self.stream.talk = cast(Talk, SimpleNamespace(opened=True, outgoing=outgoing))

    def write(self, data: bytes) -> None:
        """Note what became of the records."""
        self.alone.append(self.stream.send(lambda out: len(out), data))

    def lag(self, data: bytes, sent: int) -> None:
        """Note how much of it the socket has taken."""
        del data
        self.alone.append(sent)

    def received(self) -> list[tuple[bytes, int]]:
        """The messages that are there."""
        self.peer.setblocking(False)
        packets = [decode(one, V5) for one in Splitter(10_000).feed(self.peer.recv(10_000))]
        return [(one.payload, one.packet_id) for one in packets if isinstance(one, PublishPacket)]


def test_a_fault_while_a_group_is_written_to_ends_one_client_and_the_others_get_all() -> None:
    async def write() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        with ExitStack() as stack:
            # A filter that no SUBSCRIBE may have: what matches it cannot be found out.
            one, faulty, other = (Written(stack, runtime, text) for text in ("/a/b", "$share/x", "/a/b"))
            clients = cast("list[Client]", [one.client, faulty.client, other.client])
            streams = MqttStreams()
            for seq in (1, 2):
                streams.write(clients, encode_record(Message("/a/b", str(seq), epoch=1, seq=seq), 1, 0, MQTT5))
            assert one.received() == other.received() == [(b"1", 1), (b"2", 2)]
            assert (one.alone, faulty.alone, other.alone) == ([], [-1, -1], [])
            assert faulty.session.positions == {}
            faulty.session.unsubscribe("$share/x")
            faulty.session.subscribe(Subscription(Filter(text="/a/b", qos=1), ["/a/b"], 0, True))
            streams.write(clients, encode_record(Message("/a/b", "3", epoch=1, seq=3), 1, 0, MQTT5))
            assert faulty.alone == [-1, -1, -1]  # else it would seem to have had the first two
            assert faulty.session.positions == {}

    asyncio.run(write())


def test_a_broken_connection_is_found_out_as_its_group_is_written_to() -> None:
    async def write() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        with ExitStack() as stack:
            one, broken = (Written(stack, runtime, "/a/b") for _ in range(2))
            broken.peer.close()
            record = encode_record(Message("/a/b", "1", epoch=1, seq=1), 1, 0, MQTT5)
            MqttStreams().write(cast("list[Client]", [broken.client, one.client]), record)
            assert (broken.alone, one.alone) == ([-1], [])
            assert one.received() == [(b"1", 1)]

    asyncio.run(write())


def test_what_is_known_as_sent_is_sent_though_another_members_link_fails() -> None:
    def fails(data: bytes) -> None:
        raise RuntimeError(data)

    async def write() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        with ExitStack() as stack:
            one = Written(stack, runtime, "/a/b")
            other = SimpleNamespace(link=SimpleNamespace(stream=None, write=fails))
            record = encode_record(Message("/a/b", "1", epoch=1, seq=1), 1, 0, MQTT5)
            with pytest.raises(RuntimeError):
                MqttStreams().write(cast("list[Client]", [one.client, other]), record)
            assert one.session.positions == {"/a/b": (1, 1)}
            assert one.received() == [(b"1", 1)]

    asyncio.run(write())


def test_what_cannot_be_read_for_a_group_goes_to_each_client_alone() -> None:
    async def write() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        with ExitStack() as stack:
            links = [Written(stack, runtime, "/a/b") for _ in range(2)]
            clients = cast("list[Client]", [one.client for one in links])
            MqttStreams().write(clients, b"\0\0\0\6\1x")  # a message that ends within its head
            assert [one.alone for one in links] == [[-1], [-1]]

    asyncio.run(write())


def test_a_node_that_drains_sends_things_elsewhere_and_takes_no_more() -> None:
    with (
        Sidecar(listen=LISTEN, drain_seconds=2) as sidecar,
        mqtt(sidecar) as one,
        mqtt(sidecar, level=4) as old,
        Control(sidecar.control) as control,
    ):
        control.drain()
        [last] = one.ended()
        assert isinstance(last, Disconnect)
        assert (last.code, "elsewhere" in last.properties["reason_string"]) == (Reason.USE_ANOTHER_SERVER, True)
        assert old.ended() == []
        host, _, port = sidecar.ready["mqtt"][0].rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


@LEVELS
def test_what_no_packet_can_say_costs_nobody_anything(broker: Sidecar, level: int) -> None:
    with mqtt(broker, level=level) as thing, WireClient(broker) as browser, WireClient(broker) as other:
        thing.subscribe(f"/odd/{level}/#")
        other.ask("subscribe", "subscribed", subjects=[f"/odd/{level}/a"])
        browser.say("publish", subject=f"/odd/{level}/+", content="no topic")
        for fields in ({"a": "x" * 70_000}, {"mqtt.expires": "999999999999999"}, {"a": "\0"}):
            browser.say("publish", subject=f"/odd/{level}/a", content="1", fields=fields)
            assert row(other)[3] == "1"
            assert thing.messages(1) == [(f"/odd/{level}/a", b"1", 1, False)]


@LEVELS
@pytest.mark.parametrize("qos", [0, 1])
def test_a_subject_that_is_no_topics_costs_nobody_anything(broker: Sidecar, level: int, qos: int) -> None:
    with mqtt(broker, level=level) as one, mqtt(broker, level=level) as other, WireClient(broker) as browser:
        for thing in (one, other):
            assert thing.subscribe(f"+/none/{level}/{qos}", qos=qos) == [qos]
        for name in ("$x", "%25", "$x", "50%", "%25"):
            browser.say("publish", subject=f"/__mqtt__/{name}/none/{level}/{qos}", content=name)
        for thing in (one, other):
            assert thing.messages(2) == [(f"%/none/{level}/{qos}", b"%25", qos, False)] * 2


def test_one_packet_with_very_many_filters_holds_up_nobody(broker: Sidecar) -> None:
    with mqtt(broker) as greedy, mqtt(broker) as other:
        greedy.send(SubscribePacket(packet_id=1, filters=[Filter(text=f"very/many/{n}") for n in range(100_000)]))
        assert other.silent()
        assert [one.code for one in greedy.ended() if isinstance(one, Disconnect)] == [Reason.QUOTA_EXCEEDED]


def test_what_brings_nothing_is_granted_and_not_kept(broker: Sidecar) -> None:
    with mqtt(broker) as one:
        assert one.subscribe("$SYS/#", "$share/g/$SYS/#") == [1, 1]
        assert one.unsubscribe("$SYS/#") == [Reason.NO_SUBSCRIPTION_EXISTED]
        assert one.silent()


def test_a_client_may_unsubscribe_from_all_that_it_has_at_once() -> None:
    with Sidecar(listen=LISTEN, subscriptions_max=1100) as sidecar, mqtt(sidecar) as one:
        names = [f"many/{n}" for n in range(950)] + [f"wild/{n}/#" for n in range(50)]  # of two patterns each
        for some in (names[:500], names[500:]):
            assert set(one.subscribe(*some)) == {1}
        assert set(one.unsubscribe(*names)) == {0}
        assert set(one.subscribe(*(f"more/{n}" for n in range(1000)))) == {1}


def test_only_messages_wait_for_acknowledgements(broker: Sidecar) -> None:
    with mqtt(broker, properties={"receive_maximum": 1}) as one, mqtt(broker) as other:
        one.subscribe("wait/a")
        for payload in ("1", "2", "3"):
            other.publish("wait/a", payload)
        first = one.message(acknowledge=False)
        assert one.publish("wait/b", "x") == 0
        assert one.subscribe("wait/c") == [1]
        assert one.unsubscribe("wait/c") == [0]
        assert one.publish("wait/a", "4", 2) == 0
        assert one.silent()
        one.send(Ack(type=Type.PUBACK, packet_id=first.packet_id))
        assert [payload for _, payload, _, _ in one.messages(3)] == [b"2", b"3", b"4"]


@pytest.mark.slow
def test_who_is_not_read_is_not_silent() -> None:
    with (
        Sidecar(listen=LISTEN, mode="custom", hook_seconds=10) as sidecar,
        Answering(sidecar.control, named) as hook,
        mqtt(sidecar, "a", user="x", password=b"ann", keep_alive=1) as one,
        mqtt(sidecar, "b", user="x", password=b"bob", keep_alive=1) as other,
    ):
        hook.rule = lambda question: None
        one.send(PublishPacket(topic="held", payload=b"x", qos=1, packet_id=1))
        hook.wait("publish")
        one.send(Pingreq())
        other.sock.settimeout(2 * PATIENCE_SECONDS)
        assert [one.code for one in other.ended() if isinstance(one, Disconnect)] == [Reason.KEEP_ALIVE_TIMEOUT]
        assert one.receive(Ack)


def test_a_websocket_ends_with_a_close_frame(broker: Sidecar) -> None:
    for first in (b"", encode(Disconnect(), 5)):
        with connect(f"{broker.client_url[:-3]}/mqtt", subprotocols=[Subprotocol("mqtt")]) as one:
            one.send(encode(ConnectPacket(level=5, client_id="framed"), 5))
            assert one.recv(10)
            if first:
                one.send(first)
                with pytest.raises(ConnectionClosedOK):
                    one.recv(10)
            one.close()
            assert one.close_code == 1000


def test_an_idle_connection_takes_four_kibibytes_at_most() -> None:
    """With a subscription to a topic that others have as well; of a client that came before all is there already."""
    count = 1000
    with (
        Sidecar(listen="mqtt://127.0.0.1:0", mode="none", connections_per_address_max=0) as sidecar,
        ExitStack() as stack,
    ):
        for number in range(20):
            stack.enter_context(subscribed(sidecar, f"before-{number}"))
        before = kibibytes(sidecar.pid)
        for number in range(count):
            stack.enter_context(subscribed(sidecar, f"idle-{number}"))
        assert kibibytes(sidecar.pid) - before < 4 * count


def subscribed(sidecar: Sidecar, name: str) -> MqttPeer:
    """A client that has subscribed."""
    peer = MqttPeer(sidecar.ready["mqtt"][0], 4)
    peer.send(ConnectPacket(level=4, client_id=name))
    assert peer.receive(Connack)
    peer.send(SubscribePacket(packet_id=1, filters=[Filter(text="stocks/us/IBM")]))
    assert peer.receive(Suback)
    return peer


def kibibytes(pid: int) -> int:
    """What the process has of memory for itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
