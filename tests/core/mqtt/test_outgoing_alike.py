"""What many are sent together is, to the byte, what each would be sent alone, and leaves its session as that would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.mqtt.outgoing import Outgoing, SharedPackets
from fastpath.core.mqtt.packets import Filter
from fastpath.core.mqtt.publications import EXPIRES
from fastpath.core.mqtt.reasons import V3, V5
from fastpath.core.mqtt.records import encode_answer, encode_record
from fastpath.core.mqtt.session import MqttSession, Subscription
from fastpath.core.protocol.codec import MQTT, MQTT5
from fastpath.core.protocol.messages import GUARANTEED, STANDARD, Message
from tests.support.core.outgoing import Open, Silent

SUBJECTS = {1: "/a/b", 2: "/a/c", 3: "/d/e"}
FILTERS = {"/a/b": ["/a/b"], "/a/+": ["/a/*"], "#": ["/**"], "/d/e": ["/d/e"]}
NOW = 1_000_000


filters = st.builds(
    Filter,
    text=st.sampled_from(sorted(FILTERS)),
    qos=st.integers(0, 1),
    no_local=st.booleans(),
    as_published=st.sampled_from((False, False, True)),
)
messages = st.tuples(
    st.sampled_from(sorted(SUBJECTS)),
    st.sampled_from((GUARANTEED, GUARANTEED, STANDARD)),
    st.sampled_from(("", "", "me", "you")),
    st.booleans(),
    st.sampled_from((0, 0, 0, NOW - 1, NOW + 60_000)),
    st.sampled_from(("", "", "", "", "snapshot", "recovered")),
)
ticks = st.lists(st.lists(messages, min_size=1, max_size=4), max_size=8)


def client(
    level: int, wanted: list[tuple[Filter, int]], lasts: bool, maximum: int, bytes_max: int = 2000
) -> tuple[MqttSession, Outgoing]:
    session = MqttSession("name", level, 60 if lasts else 0)
    for one, identifier in wanted:
        session.subscribe(Subscription(one, FILTERS[one.text], identifier if level == V5 else 0, True))
    found = Outgoing(session, Silent(), Open(), maximum, 0, 0, bytes_max)
    found.own("me")
    return session, found


@given(
    st.sampled_from((V3, V5)),
    st.lists(st.tuples(filters, st.sampled_from((0, 0, 7))), max_size=3),
    st.booleans(),
    st.sampled_from((2, 65_535)),
    st.sampled_from((100, 2000)),
    ticks,
    st.lists(st.integers(0, 7)),
)
def test_together_as_alone(
    level: int,
    wanted: list[tuple[Filter, int]],
    lasts: bool,
    maximum: int,
    bytes_max: int,
    ticks: list[list[tuple[int, str, str, bool, int, str]]],
    acknowledged: list[int],
) -> None:
    (one, together), (other, alone) = (client(level, wanted, lasts, maximum, bytes_max) for _ in range(2))
    shared, seqs = SharedPackets(), dict.fromkeys(SUBJECTS, 0)
    for tick in ticks:
        data = b""
        for sid, qos, publisher, retained, expires, kind in tick:
            seqs[sid] += 1
            message = Message(
                SUBJECTS[sid], "x" * 40, epoch=1, seq=seqs[sid] if qos == GUARANTEED else 0, time=NOW - 10
            )
            message.qos, message.publisher, message.retained = qos, publisher or None, retained
            message.fields = {EXPIRES: str(expires)} if expires else None
            data += encode_record(message, sid, 0, MQTT5 if level == V5 else MQTT, kind)
        shared.read(data)
        found = None if shared.messages is None else together.take_alike(shared.messages)
        expected = alone.take(data, NOW)
        if found is None:
            assert together.take(data, NOW) == expected
        else:
            assert (len(data), found) == expected
        for packet_id in acknowledged:
            assert one.acknowledged(packet_id) == other.acknowledged(packet_id)
        assert (one.whole(), one.in_flight, one.in_flight_bytes) == (
            other.whole(),
            other.in_flight,
            other.in_flight_bytes,
        )


def test_no_more_waits_for_acknowledgements_than_its_bytes_allow() -> None:
    records = [encode_record(Message("/d/e", "x" * 1000, epoch=1, seq=seq), 3, 0, MQTT5) for seq in range(1, 5)]
    shared = SharedPackets()
    for count in (2, 3):
        session, outgoing = client(V5, [(Filter(text="/d/e", qos=1), 0)], False, 65_535)
        shared.read(b"".join(records[:count]))
        assert shared.messages
        assert (outgoing.take_alike(shared.messages) is None) == (count == 3)
        assert outgoing.take(b"".join(records), NOW)[0] == (0 if count == 2 else 2 * len(records[0]))
        assert len(session.in_flight) == 2


def test_what_is_no_live_message_is_nobodys_in_common() -> None:
    shared = SharedPackets()
    live = encode_record(Message("/a/b", "x", epoch=1, seq=1), 1, 0, MQTT5)
    shared.read(live)
    assert shared.packets
    assert shared.messages
    for data in (
        live + encode_answer(b"\x80"),
        live + encode_record(Message("/a/b", "x", seq=1), 1, 0, MQTT5, "snapshot"),
    ):
        shared.read(data)
        assert shared.packets is None
        assert shared.messages is None
