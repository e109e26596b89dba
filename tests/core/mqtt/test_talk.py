"""What the talk asks of the core for a session that goes on; all else is in tests/edge/clients/mqtt/test_stream.py."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import ConnectPacket, Filter
from fastpath.core.mqtt.reasons import V5
from fastpath.core.mqtt.session import POSITIONS_MAX, MqttSession, Subscription
from fastpath.core.mqtt.talk import Talk
from fastpath.core.protocol.codec import MSGPACK, decode_command
from fastpath.core.protocol.messages import Subscribe


class Recording:
    """A connection that lets its client in with a session, and notes what is asked for it."""

    shares = None
    parting = None
    publisher = None

    def __init__(self, session: MqttSession) -> None:
        self._session = session
        self.subscribed: list[Subscribe] = []
        self.talk = Talk(self, 1 << 20, 1 << 20)  # type: ignore[arg-type]

    def admit(self, packet: ConnectPacket) -> None:
        """Its session was there."""
        del packet
        self.talk.begin(self._session, present=True)

    def holds(self) -> bool:
        """Nobody is asked about it."""
        return False

    def command(self, data: bytes) -> None:
        """What is asked for."""
        command: Any = decode_command(data, MSGPACK)
        if isinstance(command, Subscribe):
            self.subscribed.append(command)


@pytest.mark.parametrize("known", [1, POSITIONS_MAX])
def test_of_a_topic_whose_place_found_no_room_all_is_asked_for(known: int) -> None:
    """So that it is told if the client has missed any; else one without a place was not answered yet, and begins."""
    session = MqttSession("p", V5, 60)
    for number in range(known):
        session.reached(f"/a/{number}", 7, 3)
    for text in ("/a/0", "/b/0", "/c/+"):
        session.subscribe(Subscription(Filter(text=text, qos=1), [text.replace("+", "*")], 0, True))
    host = Recording(session)
    host.talk.received(encode(ConnectPacket(level=V5, client_id="a", clean=False), V5), 0)
    asked = {subject: one.since.get(subject) for one in host.subscribed for subject in one.subjects}
    assert asked == {"/a/0": (7, 3), "/b/0": None if known == 1 else (0, 0), "/c/*": (0, 0)}


def test_however_many_topics_a_session_names_each_position_is_asked_for_once() -> None:
    """With a position of each a command takes no more than one without."""
    session = MqttSession("p", V5, 60)
    for number in range(POSITIONS_MAX - 100):
        session.reached(f"/a/{number}", 7, number + 1)
        session.subscribe(Subscription(Filter(text=f"/a/{number}", qos=1), [f"/a/{number}"], 0, True))
    for number in range(50):
        session.reached(f"/b/{number}/x", 7, 3)
        session.subscribe(Subscription(Filter(text=f"/b/{number}/+"), [f"/b/{number}/*"], 0, True))
    host = Recording(session)
    host.talk.received(encode(ConnectPacket(level=V5, client_id="a", clean=False), V5), 0)
    *named, patterns = host.subscribed
    assert [len(one.subjects) for one in named] == [1000] * 9 + [900]
    assert {subject: place for one in named for subject, place in one.since.items()} == {
        f"/a/{number}": (7, number + 1) for number in range(POSITIONS_MAX - 100)
    }
    assert sum(len(one.since) for one in named) == POSITIONS_MAX - 100
    assert patterns.subjects == [f"/b/{number}/*" for number in range(50)]
    assert patterns.since == dict.fromkeys(patterns.subjects, (0, 0)) | {
        f"/b/{number}/x": (7, 3) for number in range(50)
    }
