"""The verbs of the channel layer on a real control socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ControlRefused
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SEND: dict[str, Any] = {"message": b"1", "capacity": 2, "seconds": 60}


@pytest.fixture
def control(sidecar: Sidecar) -> Iterator[Control]:
    with Control(sidecar.control) as control:
        yield control


@pytest.fixture(scope="module")
def refusing() -> Iterator[Control]:
    """One that is asked for nothing that it does."""
    with Sidecar() as sidecar, Control(sidecar.control) as control:
        yield control


def send(control: Control, channel: str, message: bytes = b"1", **others: Any) -> None:
    control.call("channel_send", SEND | {"channel": channel, "message": message} | others)


def receive(control: Control, channel: str) -> bytes:
    return bytes(control.call("channel_receive", {"channel": channel})["message"])


def add(control: Control, group: str, *channels: str) -> None:
    control.call("channel_group_add", {"memberships": [[group, channel, 2, 60] for channel in channels]})


def test_a_message_goes_from_one_connection_to_another(sidecar: Sidecar, control: Control) -> None:
    with Control(sidecar.control) as other:
        send(control, "a", b"1")
        send(control, "a", b"2")
        assert [receive(other, "a"), receive(control, "a")] == [b"1", b"2"]


def test_a_full_channel_is_refused_and_counted_and_a_groups_full_channels_are_told(control: Control) -> None:
    add(control, "g", "a", "b")
    send(control, "a")
    send(control, "a")
    with pytest.raises(ControlRefused, match="channel_full"):
        send(control, "a")
    told = control.call("channel_group_send", {"group": "g", "message": b"3", "seconds": 60})
    assert told == {"sent": 1, "full": 1}
    assert receive(control, "b") == b"3"
    figures = control.stats()
    assert [figures[f"channel_messages{name}"] for name in ("", "_full", "_waiting", "_expired")] == [3, 2, 2, 0]
    assert figures["channel_memberships"] == 2


def test_a_large_group_is_sent_to_in_turns_each_channel_once_and_in_order(control: Control) -> None:
    names = [f"c{number}" for number in range(3000)]
    for begin in range(0, len(names), 1000):
        add(control, "g", *names[begin : begin + 1000])
    for message in b"1", b"2", b"3":
        told = control.call("channel_group_send", {"group": "g", "message": message, "seconds": 60})
        assert told == ({"sent": 0, "full": 3000} if message == b"3" else {"sent": 3000, "full": 0})
    for name in names[::500]:
        assert [receive(control, name), receive(control, name)] == [b"1", b"2"]


def test_a_receiver_waits_and_is_answered_when_a_message_comes(sidecar: Sidecar, control: Control) -> None:
    with Pushes(sidecar.control) as waiting:
        waiting.send("channel_receive", {"channel": "a"})
        until(lambda: control.stats()["channel_receivers"] == 1)
        send(control, "a", b"1")
        until(lambda: control.stats()["channel_receivers"] == 0)
        send(control, "a", b"2")
        assert receive(control, "a") == b"2"


def test_a_receiver_whose_connection_is_gone_takes_nothing(sidecar: Sidecar, control: Control) -> None:
    with Pushes(sidecar.control) as waiting:
        waiting.send("channel_receive", {"channel": "a"})
        until(lambda: control.stats()["channel_receivers"] == 1)
    until(lambda: control.stats()["channel_receivers"] == 0)
    send(control, "a", b"1")
    assert receive(control, "a") == b"1"


def test_a_cancelled_receiver_is_told_and_takes_nothing(sidecar: Sidecar, control: Control) -> None:
    with Pushes(sidecar.control) as waiting:
        number = waiting.send("channel_receive", {"channel": "a"})
        waiting.send("channel_cancel", {"request": number})
        assert until(lambda: waiting.read(0.1))[0][1]["code"] == "cancelled"
        send(control, "a", b"1")
        assert receive(control, "a") == b"1"


def test_what_is_returned_is_the_next_message(control: Control) -> None:
    send(control, "a", b"1")
    send(control, "a", b"2")
    got = control.call("channel_receive", {"channel": "a"})
    control.call("channel_return", {"channel": "a"} | got)
    assert [receive(control, "a"), receive(control, "a")] == [b"1", b"2"]


def test_messages_expire_and_are_counted(control: Control) -> None:
    send(control, "a", seconds=0.01)
    until(lambda: control.stats()["channel_messages_expired"] == 1)
    assert control.stats()["channel_messages_waiting"] == 0


def test_other_processes_are_told_who_was_taken_out_and_what_was_emptied(sidecar: Sidecar, control: Control) -> None:
    with Pushes(sidecar.control) as other:
        assert other.ask("channel_open", {"process": "p2"}) == control.call("channel_open", {"process": "p1"})
        add(control, "g", "a.p2!x", "a.p1!x", "a.p3!x", "named")
        for channel in "a.p1!x", "a.p3!x", "named":
            control.call("channel_group_discard", {"group": "g", "channel": channel})
        control.call("channel_group_discard", {"group": "g", "channel": "a.p2!x"})
        control.call("channel_group_discard", {"group": "g", "channel": "a.p2!x"})
        control.call("channel_flush", {"prefix": "g"})
        told: list[Any] = []
        until(lambda: told.extend(other.read(0.1)) or ("channel_flushed", {"prefix": "g"}) in told)
        assert told[:-1] == [("channel_discarded", {"group": "g", "channel": name}) for name in ("named", "a.p2!x")]


@pytest.mark.parametrize(
    ("verb", "arguments", "told"),
    [
        ("channel_open", {}, "process is missing"),
        ("channel_open", {"process": "p" * 65}, "process is a text of 1 to 64"),
        ("channel_send", SEND, "channel is missing"),
        ("channel_send", SEND | {"channel": ""}, "channel is a text"),
        ("channel_send", SEND | {"channel": 1}, "channel is a text"),
        ("channel_send", SEND | {"channel": "a", "message": "text"}, "message is bytes"),
        ("channel_send", SEND | {"channel": "a", "message": b"x" * (1 << 20) + b"x"}, "too_large"),
        ("channel_send", SEND | {"channel": "a", "capacity": 0}, "capacity is a whole number"),
        ("channel_send", SEND | {"channel": "a", "capacity": True}, "capacity is a whole number"),
        ("channel_send", SEND | {"channel": "a", "seconds": 0}, "seconds is a number above 0"),
        ("channel_send", SEND | {"channel": "a", "seconds": float("inf")}, "seconds is a number above 0"),
        ("channel_send", SEND | {"channel": "a", "seconds": float("nan")}, "seconds is a number above 0"),
        ("channel_receive", {"channel": "c" * 257}, "channel is a text"),
        ("channel_cancel", {"request": "1"}, "request is a whole number"),
        ("channel_return", {"channel": "a", "message": b"1", "until": "soon"}, "until is the whole number"),
        ("channel_group_add", {"memberships": [["g", "a"]]}, "a membership is"),
        ("channel_group_add", {"memberships": [["g", "a", 1, 1]] * 1001}, "at most 1000"),
        ("channel_group_discard", {"group": "g"}, "channel is missing"),
        ("channel_group_send", {"group": None, "message": b"1", "seconds": 1}, "group is a text"),
        ("channel_flush", {"prefix": None}, "prefix is a text"),
    ],
)
def test_bad_input_is_refused_with_what_to_say(refusing: Control, verb: str, arguments: Any, told: str) -> None:
    with pytest.raises(ControlRefused, match=told):
        refusing.call(verb, arguments)
