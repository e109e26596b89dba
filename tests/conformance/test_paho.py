"""What an independent client (paho-mqtt) sees of the server, statement by statement, in both versions."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any, Self

import pytest
from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.edge.mqtt import LISTEN
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SECONDS_MAX = 10
LEVELS = pytest.mark.parametrize("level", [4, 5])
CLOSED = "closed/topic"


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """Anybody may do everything, but subscribe to one topic; each test has topics of its own."""
    rules = (
        rule(1, "/**", "anonymous", action="both"),
        rule(2, f"/__mqtt__/{CLOSED}", "anonymous", allow=False),
    )
    with ruled(*rules, listen=LISTEN) as rights:
        yield rights.sidecar
        assert "Traceback" not in rights.sidecar.log, rights.sidecar.log


def properties(kind: int, **values: Any) -> Properties:
    """Properties of a packet, by paho's names."""
    found = Properties(kind)
    for name, value in values.items():
        setattr(found, name, value)
    return found


class Paho:
    """A client of paho-mqtt whose callbacks are read one by one."""

    def __init__(self, broker: Sidecar, level: int, client_id: str = "", *, lasts: bool = False, **rest: Any) -> None:
        self.level = level
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.kept: list[tuple[str, Any]] = []
        version = MQTTProtocolVersion.MQTTv5 if level == 5 else MQTTProtocolVersion.MQTTv311
        clean = {} if level == 5 else {"clean_session": not lasts}
        self.client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=version, **clean)
        will = rest.pop("will", None)
        if will is not None:
            self.client.will_set(**will)
        self.client.on_connect = self._connected
        self.client.on_message = self._message
        self.client.on_subscribe = lambda _c, _u, _m, codes, _p: self.told.put(("subscribed", codes))
        self.client.on_unsubscribe = lambda _c, _u, _m, codes, _p: self.told.put(("unsubscribed", codes))
        self.client.on_publish = lambda _c, _u, _m, code, _p: self.told.put(("published", code))
        self.client.on_disconnect = self._disconnected
        host, _, port = broker.ready["mqtt"][0].rpartition(":")
        if level == 5:
            rest = {"clean_start": not lasts, "properties": properties(PacketTypes.CONNECT, **rest)}
            if lasts:
                rest["properties"].SessionExpiryInterval = 60
        self.client.connect(host, int(port), keepalive=rest.pop("keepalive", 60), **rest)
        self.client.loop_start()
        self.present, self.code, self.terms = self.next("connected")

    def _connected(self, _c: Client, _u: Any, flags: ConnectFlags, code: ReasonCode, terms: Properties | None) -> None:
        self.told.put(("connected", (flags.session_present, code.value, terms)))

    def _message(self, _c: Client, _u: Any, message: MQTTMessage) -> None:
        self.told.put(("message", message))

    def _disconnected(self, _c: Client, _u: Any, flags: DisconnectFlags, code: ReasonCode, _p: Any) -> None:
        self.told.put(("gone", (flags.is_disconnect_packet_from_server, code.value)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def next(self, kind: str) -> Any:
        """The next of that kind; what else comes is kept."""
        for at, (name, value) in enumerate(self.kept):
            if name == kind:
                del self.kept[at]
                return value
        while True:
            name, value = self.told.get(timeout=SECONDS_MAX)
            if name == kind:
                return value
            self.kept.append((name, value))

    def subscribe(self, *filters: Any, **rest: Any) -> list[int]:
        """Subscribe, each filter with its QoS or options; the codes."""
        self.client.subscribe(list(filters), **rest)
        return [code.value for code in self.next("subscribed")]

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, **rest: Any) -> int:
        """Publish, and wait for the acknowledgement; its code."""
        self.client.publish(topic, payload, qos, **rest)
        return int(self.next("published").value)

    def message(self) -> MQTTMessage:
        """The next message."""
        return self.next("message")  # type: ignore[no-any-return]

    def messages(self, count: int) -> list[tuple[str, bytes, int, bool]]:
        """The next messages."""
        found = [self.message() for _ in range(count)]
        return [(one.topic, one.payload, one.qos, bool(one.retain)) for one in found]

    def had(self) -> list[bytes]:
        """What has come and was not looked at, before the answer to what is asked now."""
        self.client.unsubscribe("nothing/of/the/kind")
        self.next("unsubscribed")
        return [value.payload for name, value in self.kept if name == "message"]

    def silent(self) -> bool:
        """Whether no message has come that was not looked at."""
        return not self.had()

    def lose(self) -> None:
        """Break the connection, as a network does."""
        self.client.loop_stop()
        sock = self.client.socket()
        assert sock is not None
        sock.close()

    def options(self, qos: int = 1, **rest: Any) -> Any:
        """What a filter is subscribed to with in this version."""
        return SubscribeOptions(qos, **rest) if self.level == 5 else qos


@LEVELS
def test_every_quality_is_delivered_in_order_and_acknowledged(broker: Sidecar, level: int) -> None:
    topic = f"paho/{level}/quality"
    with Paho(broker, level) as one:
        assert one.code == 0
        assert one.subscribe((topic, one.options(2))) == [1]
        for qos in (0, 1, 2):
            assert one.publish(topic, str(qos), qos) == 0
        assert one.messages(3) == [(topic, b"0", 0, False), (topic, b"1", 1, False), (topic, b"2", 1, False)]


@LEVELS
def test_wildcards_by_levels(broker: Sidecar, level: int) -> None:
    root = f"paho/{level}/wild"
    with Paho(broker, level) as one:
        one.subscribe((f"{root}/+/b", one.options()), (f"{root}/x/#", one.options()))
        for topic in ("a/b", "a/b/c", "/b", "x", "x/y/z", "y"):
            one.publish(f"{root}/{topic}", topic)
        assert [payload for _, payload, _, _ in one.messages(4)] == [b"a/b", b"/b", b"x", b"x/y/z"]
        assert one.silent()


@LEVELS
def test_a_retained_message_is_kept_replaced_and_removed(broker: Sidecar, level: int) -> None:
    topic = f"paho/{level}/kept"
    with Paho(broker, level) as one:
        one.publish(topic, "old", retain=True)
        one.publish(topic, "new", retain=True)
        one.subscribe((topic, one.options()))
        assert one.messages(1) == [(topic, b"new", 1, True)]
        one.publish(topic, b"", retain=True)
        assert one.messages(1) == [(topic, b"", 1, False)]
    with Paho(broker, level) as one:
        one.subscribe((topic, one.options()))
        assert one.silent()
        one.publish(topic, b"", 0, retain=True)  # of what is not there, and of QoS 0
        assert one.messages(1) == [(topic, b"", 0, False)]
        one.publish(topic, "again", retain=True)
        assert one.messages(1) == [(topic, b"again", 1, False)]


@LEVELS
def test_a_will_is_published_when_the_connection_is_lost_and_not_when_it_ends(broker: Sidecar, level: int) -> None:
    topic = f"paho/{level}/will"
    will = {"topic": topic, "payload": "gone", "qos": 1}
    with Paho(broker, level) as one:
        one.subscribe((topic, one.options()))
        with Paho(broker, level, will=will):
            pass
        assert one.silent()
        Paho(broker, level, will=will).lose()
        assert one.messages(1) == [(topic, b"gone", 1, False)]


@LEVELS
def test_a_session_keeps_subscriptions_and_what_is_missed(broker: Sidecar, level: int) -> None:
    topic, name = f"paho/{level}/missed", f"paho{level}"
    with Paho(broker, level, name, lasts=True) as one:
        assert not one.present
        one.subscribe((topic, one.options()))
    with Paho(broker, level) as other:
        other.publish(topic, "while away")
    with Paho(broker, level, name, lasts=True) as one:
        assert one.present
        assert one.messages(1) == [(topic, b"while away", 1, False)]
    with Paho(broker, level, name) as one:
        assert not one.present
        assert one.silent()


@LEVELS
def test_another_connection_with_the_same_id_takes_over(broker: Sidecar, level: int) -> None:
    with Paho(broker, level, f"twice{level}") as one:
        one.client.reconnect_delay_set(60, 60)
        with Paho(broker, level, f"twice{level}"):
            from_server, code = one.next("gone")
            assert (from_server, code) == ((True, 0x8E) if level == 5 else (False, 0x80))


@LEVELS
def test_who_may_not_is_told(broker: Sidecar, level: int) -> None:
    with Paho(broker, level) as one:
        assert one.subscribe((CLOSED, one.options()), (f"paho/{level}/open", one.options())) == [0x80, 1]
        one.client.unsubscribe([f"paho/{level}/open", "paho/never"])
        assert [code.value for code in one.next("unsubscribed")] == ([0, 0x11] if level == 5 else [])


@LEVELS
def test_a_group_shares_what_it_subscribes_to(broker: Sidecar, level: int) -> None:
    topic = f"paho/{level}/shared"
    with Paho(broker, level) as one, Paho(broker, level) as other:
        for member in (one, other):
            assert member.subscribe((f"$share/crew/{topic}", member.options())) == [1]
        for number in range(10):
            one.publish(topic, str(number))
        until(lambda: sorted(one.had() + other.had()) == [b"%d" % number for number in range(10)])


def test_what_a_publisher_says_of_its_message_arrives(broker: Sidecar) -> None:
    said = {
        "UserProperty": [("a", "1"), ("a", "2"), ("b", "3")],
        "ContentType": "text/plain",
        "ResponseTopic": "paho/answers",
        "CorrelationData": b"\0\xff",
        "PayloadFormatIndicator": 1,
        "MessageExpiryInterval": 60,
    }
    with Paho(broker, 5) as one:
        identified = properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=300)
        one.subscribe(("paho/said", SubscribeOptions(1)), properties=identified)
        assert one.publish("paho/said", "x", properties=properties(PacketTypes.PUBLISH, **said)) == 0
        found = one.message().properties
        assert found is not None
        assert {name: getattr(found, name) for name in said if name != "MessageExpiryInterval"} == {
            name: value for name, value in said.items() if name != "MessageExpiryInterval"
        }
        assert 0 < found.MessageExpiryInterval <= 60
        assert found.SubscriptionIdentifier == [300]


def test_options_of_a_subscription(broker: Sidecar) -> None:
    with Paho(broker, 5) as one, Paho(broker, 5) as other:
        other.publish("paho/options", "kept", retain=True)
        options = SubscribeOptions(1, noLocal=True, retainAsPublished=True, retainHandling=2)
        one.subscribe(("paho/options", options))
        one.publish("paho/options", "own")
        other.publish("paho/options", "theirs", retain=True)
        assert one.messages(1) == [("paho/options", b"theirs", 1, True)]
        assert one.silent()


def test_the_server_says_its_terms(broker: Sidecar) -> None:
    with Paho(broker, 5, TopicAliasMaximum=2, ReceiveMaximum=3, MaximumPacketSize=500) as one:
        assert one.terms.AssignedClientIdentifier
        assert one.terms.ReceiveMaximum > 0
        assert one.terms.TopicAliasMaximum > 0
        assert one.terms.MaximumPacketSize > 500
        one.subscribe(("paho/terms", SubscribeOptions(1)))
        aliased = properties(PacketTypes.PUBLISH, TopicAlias=1)
        one.publish("paho/terms", "first", properties=aliased)
        one.publish("paho/terms", "x" * 600)  # too large for this client, who is not told
        one.publish("", "by alias", properties=aliased)
        assert [payload for _, payload, _, _ in one.messages(2)] == [b"first", b"by alias"]
        assert one.silent()
