"""Shared subscriptions from outside: each message has one taker, whoever comes, lags or goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fastpath.core.mqtt.packets import (
    Ack,
    Disconnect,
    Filter,
    PublishPacket,
    SubscribePacket,
    Type,
)
from fastpath.core.mqtt.reasons import Reason
from fastpath.core.mqtt.session import GROUPS_MAX
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def taken(peer: MqttPeer) -> list[str]:
    """What the client has been sent by now, acknowledged."""
    peer.silent()
    found = [one for one in peer.packets if isinstance(one, PublishPacket)]
    for one in found:
        peer.packets.remove(one)
        if one.qos:
            peer.send(Ack(type=Type.PUBACK, packet_id=one.packet_id))
    return [one.payload.decode() for one in found]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("pace", ["one by one", "at once"])
def test_each_message_has_one_taker_and_all_have_a_share(broker: Sidecar, qos: int, pace: str) -> None:
    topic = f"work/{qos}/{pace}"
    with mqtt(broker) as one, mqtt(broker, level=4) as other, mqtt(broker) as third, mqtt(broker) as publisher:
        members = (one, other, third)
        for member in members:
            assert member.subscribe(f"$share/crew/{topic}/+", qos=qos) == [qos]
        sent = [str(number) for number in range(90)]
        had: list[list[str]] = [[], [], []]
        for number, payload in enumerate(sent):
            publisher.publish(f"{topic}/{number % 2}", payload, qos if pace == "at once" else 1)
            if pace == "one by one" and number % 10 == 9:
                for mine, member in zip(had, members, strict=True):
                    mine += taken(member)

        def all_had() -> bool:
            for mine, member in zip(had, members, strict=True):
                mine += taken(member)
            return sum(map(len, had)) >= len(sent)

        until(all_had, 20)
        assert not all(map(taken, members))
        assert sorted(had[0] + had[1] + had[2], key=int) == sent
        assert all(had)
        for mine in had:
            for part in (0, 1):
                order = [int(payload) for payload in mine if int(payload) % 2 == part]
                assert order == sorted(order)


def test_groups_and_other_subscriptions_know_nothing_of_each_other(broker: Sidecar) -> None:
    with mqtt(broker) as one, mqtt(broker) as other, mqtt(broker) as publisher:
        publisher.publish("/shared/a/b", "kept", retain=True)
        one.subscribe(Filter(text="$share/first//shared/#", qos=1), subscription_identifier=7)
        one.subscribe(Filter(text="$share/second//shared/#", qos=0), subscription_identifier=8)
        other.subscribe("/shared/a/+")
        assert other.messages(1) == [("/shared/a/b", b"kept", 1, True)]
        assert one.silent()  # what is retained is not a group's
        publisher.publish("/shared/a/b", "x")
        found = one.message()
        assert (found.payload, found.qos, sorted(found.properties["subscription_identifier"])) == (b"x", 1, [7, 8])
        assert other.messages(1)[0][1] == b"x"
        assert one.unsubscribe("$share/first//shared/#", "$share/second//shared/#", "$share/no/x") == [0, 0, 17]
        publisher.publish("/shared/a/b", "y")
        assert one.silent()


def test_who_does_not_acknowledge_leaves_the_rest_to_others(broker: Sidecar) -> None:
    with MqttPeer(broker.ready["mqtt"][0]) as one, mqtt(broker) as other, mqtt(broker) as publisher:
        assert one.connect("busy", properties={"receive_maximum": 1}).code == 0
        one.subscribe("$share/crew/busy")
        other.subscribe("$share/crew/busy")
        for number in range(20):
            publisher.publish("busy", str(number))
        had: list[str] = []
        until(lambda: len(had.__iadd__(taken(other))) >= 19, 20)
        assert len(had) == 19
        kept = one.message(acknowledge=False).payload.decode()
        assert sorted([*had, kept], key=int) == [str(number) for number in range(20)]
        one.sock.close()  # its session ends with it, and what it had not acknowledged is another's
        until(lambda: taken(other) == [kept], 20)


def test_a_member_that_comes_back_gets_what_nobody_took(broker: Sidecar) -> None:
    lasting = {"clean": False, "properties": {"session_expiry": 60}}
    with mqtt(broker, "lasting", **lasting) as one, mqtt(broker) as other:
        one.subscribe("$share/crew/away")
        other.subscribe("$share/crew/away")
        one.disconnect()
        other.publish("away", "1")
        assert other.messages(1)[0][1] == b"1"
        assert other.unsubscribe("$share/crew/away") == [0]
        other.publish("away", "2")
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.connect("lasting", **lasting).session_present
        assert one.messages(1) == [("away", b"2", 1, False)]
        assert one.silent()


def test_only_who_may_read_takes_anything() -> None:
    rules = (rule(1, "/jobs/**"), rule(2, "/jobs/secret", "user:bob", allow=False), rule(3, "/jobs/**", "user:bob"))
    with ruled(*rules, listen=LISTEN) as rights, rights.publisher() as publisher, ExitStack() as stack:
        members = []
        for user in ("alice", "bob"):
            token = mint(user, generation=rights.generation).encode()
            members.append(stack.enter_context(mqtt(rights.sidecar, user, user=user, password=token)))
            assert members[-1].subscribe("$share/crew//jobs/+") == [1]
        for number in range(10):
            publisher.publish(["/jobs/secret", str(number)])
        assert [payload for _, payload, _, _ in members[0].messages(10)] == [b"%d" % number for number in range(10)]
        assert members[1].silent()
        # What alice leaves unacknowledged is not bob's either.
        publisher.publish(["/jobs/secret", "last"])
        members[0].message(acknowledge=False)
        members[0].sock.close()
        publisher.publish(["/jobs/open", "next"])
        assert members[1].messages(1)[0][1] == b"next"


@pytest.mark.parametrize(
    "text", ["$share/", "$share/a", "$share/a/", "$share/+/a", "$share/#/a", "$share//a", "$share/a+/b"]
)
def test_a_filter_of_no_group_is_a_fault(broker: Sidecar, text: str) -> None:
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        one.connect()
        one.ids += 1
        with pytest.raises(AssertionError, match="ended"):
            one.subscribe(text)
        assert [each.code for each in one.packets if isinstance(each, Disconnect)] == [Reason.FILTER_INVALID]


def test_no_local_is_for_no_group(broker: Sidecar) -> None:
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        one.connect()
        with pytest.raises(AssertionError, match="ended"):
            one.subscribe(Filter(text="$share/a/b", no_local=True))
        assert [each.code for each in one.packets if isinstance(each, Disconnect)] == [Reason.PROTOCOL_ERROR]


def test_a_group_of_a_packet_that_is_refused_takes_no_place() -> None:
    with Sidecar(listen=LISTEN) as sidecar:
        for of in range(5):
            with MqttPeer(sidecar.ready["mqtt"][0]) as one:
                one.connect()
                groups = [Filter(text=f"$share/g{of}.{n}/x") for n in range(200)]
                one.send(SubscribePacket(packet_id=1, filters=[*groups, Filter(text="a#b")]))
                one.ended()
        with mqtt(sidecar) as one:
            assert one.subscribe("$share/more/x") == [1]


def test_one_client_does_not_take_all_groups(broker: Sidecar) -> None:
    with mqtt(broker) as greedy, mqtt(broker) as other:
        names = [f"$share/greedy/{number}" for number in range(GROUPS_MAX + 1)]
        assert greedy.subscribe(*names) == [*[1] * GROUPS_MAX, Reason.QUOTA_EXCEEDED]
        assert greedy.subscribe(names[-1]) == [Reason.QUOTA_EXCEEDED]
        assert greedy.subscribe(names[0], names[0]) == [1, 1], "it is a member already"
        assert other.subscribe(names[-1]) == [1]
        assert greedy.unsubscribe(names[0]) == [0]
        assert greedy.subscribe(names[-1]) == [1]
