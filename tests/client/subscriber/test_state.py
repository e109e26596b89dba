"""The client's view of the protocol, without I/O: frames in, events and frames out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastpath.client.errors import Invalid, Limited
from fastpath.client.message import Position, Status
from fastpath.client.subscriber.events import Answered, Arrived, Event, NamedServers, SubscriptionRefused
from fastpath.client.subscriber.state import ClientState
from fastpath.client.subscriber.subscription_set import SUBJECTS_PER_COMMAND
from fastpath.client.subscriber.subscriptions import RETRY_MS
from fastpath.core.protocol.errors import BadFrame

EPOCH = 1700000000000
A, B = "/a/a", "/a/b"


class Story:
    """A client in the JSON form and what it was told; ``says`` feeds a frame, ``sent`` reads commands."""

    def __init__(self) -> None:
        self.state = ClientState("json")
        self.sid = 0

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.state.take_out()]

    def says(self, frame: Any) -> list[Event]:
        return self.state.receive(json.dumps(frame).encode())

    def connects(self) -> None:
        self.state.open("")
        self.says({"op": "connected", "id": 1, "server": "s", "epoch": EPOCH, "user": "ann", "time": EPOCH,
                   "base": EPOCH, "ping_ms": 25000})  # fmt: skip

    def answers(self, **result: Any) -> list[Event]:
        """The answer to the last subscribe command, for each of its subjects."""
        command = [command for command in self.sent() if command["op"] == "subscribe"][-1]
        results = []
        for subject in command["subjects"]:
            self.sid += 1
            given = {"error": result["error"], "reason": "so"} if "error" in result else {
                "sid": self.sid, "epoch": EPOCH, "seq": 0, **result}  # fmt: skip
            results.append({"subject": subject, **given})
        return self.says({"op": "subscribed", "id": command["id"], "results": results})

    def gets(self, seq: int, kind: str = "", sid: int | None = None) -> list[str]:
        """What comes of a message whose content is its number: the contents delivered, names of statuses."""
        meta = [None, {"kind": kind}] if kind else []
        events = self.says([sid or self.sid, seq, 0, str(seq), *meta])
        return [str(event.message.content) if isinstance(event, Arrived) else event.name  # type: ignore[union-attr]
                for event in events]  # fmt: skip

    def position(self, subject: str = A) -> tuple[int, int] | None:
        return self.state.following.wanted.subjects[subject].position


@pytest.fixture
def story() -> Story:
    """A client that is connected and has subscribed to A, with what was sent so far read."""
    story = Story()
    story.connects()
    story.state.following.subscribe("owner", [A])
    return story


@pytest.mark.parametrize(
    ("answer", "messages", "delivered", "position"),
    [
        # A subject without messages begins at 0, and goes on by one.
        ({}, [(1, ""), (2, "")], ["1", "2"], 2),
        # The snapshot carries its own number; live messages follow the number of the answer.
        ({"seq": 41, "messages": 1}, [(41, "snapshot"), (42, "")], ["41", "42"], 42),
        ({"seq": 41, "messages": 1}, [(0, "snapshot"), (42, "")], ["0", "42"], 42),
        # History: each counts, so that a loss in between misses none of the rest.
        ({"seq": 3, "messages": 3}, [(1, "historical"), (2, "historical")], ["1", "2"], 2),
        ({"seq": 3, "messages": 3}, [(1, "historical"), (2, "historical"), (3, "historical")], ["1", "2", "3"], 3),
        # Before the snapshot has come nothing is known.
        ({"seq": 41, "messages": 1}, [], [], None),
        # Standard quality has no place in the order, and is delivered always.
        ({"seq": 5}, [(0, ""), (6, ""), (0, "")], ["0", "6", "0"], 6),
        # What was seen is not delivered again.
        ({"seq": 5}, [(5, ""), (6, ""), (6, "")], ["6"], 6),
        # A gap is not delivered but asked for.
        ({"seq": 5}, [(6, ""), (8, ""), (9, "")], ["6", "gap"], 6),
    ],
)
def test_messages_and_position(
    story: Story, answer: dict[str, Any], messages: list[tuple[int, str]], delivered: list[str], position: int | None
) -> None:
    assert story.answers(**answer) == [Status(name="subscribed", subject=A)]
    assert [what for seq, kind in messages for what in story.gets(seq, kind)] == delivered
    assert story.position() == (None if position is None else (EPOCH, position))


def test_a_gap_is_asked_for_from_the_last_that_was_seen(story: Story) -> None:
    story.answers(seq=5)
    story.gets(7)
    [again] = story.sent()
    assert again == {"op": "subscribe", "id": again["id"], "subjects": [A], "since": {A: [EPOCH, 5]}}
    assert story.gets(8) == []
    sid = story.sid
    result = {"subject": A, "sid": sid, "epoch": EPOCH, "seq": 8, "recovery": "recovered", "messages": 3}
    assert story.says({"op": "subscribed", "id": again["id"], "results": [result]}) == [
        Status(name="recovered", subject=A)]  # fmt: skip
    assert [story.gets(seq, "recovered") for seq in (6, 7, 8)] == [["6"], ["7"], ["8"]]
    assert story.gets(9) == ["9"]


def test_a_conflated_subscription_has_gaps_by_nature() -> None:
    story = Story()
    story.connects()
    story.state.following.subscribe("owner", [A], conflation=547)
    story.answers(conflation=500)
    assert [story.gets(seq) for seq in (3, 9, 9)] == [["3"], ["9"], []]


def test_while_it_lags_a_subscription_has_gaps(story: Story) -> None:
    """It is told when that begins and ends; then a gap is a fault again."""
    story.answers(seq=5)
    assert story.gets(6) == ["6"]
    assert story.says({"op": "lagging", "sids": [1, 99]}) == [Status(name="lagging", subject=A)]
    assert [story.gets(seq) for seq in (9, 9)] == [["9"], []]
    assert story.says({"op": "caught_up", "sids": [1]}) == [Status(name="caught_up", subject=A)]
    assert [story.gets(seq) for seq in (10, 12)] == [["10"], ["gap"]]


def test_what_lagged_does_so_no_more_after_a_new_answer(story: Story) -> None:
    """Asked for again, or on a new connection, which starts from the last that was read."""
    story.answers(seq=5)
    story.says({"op": "lagging", "sids": [1]})
    story.state.following.subscribe("owner", [A], slow="conflate", since={A: (EPOCH, 5)})
    story.answers(seq=5)
    assert story.gets(7) == ["gap"]
    story.says({"op": "lagging", "sids": [2]})
    story.state.lose()
    story.sent()
    story.connects()
    _, command = story.sent()
    assert (command["slow"], command["since"]) == ("conflate", {A: [EPOCH, 5]})
    story.says({"op": "subscribed", "id": command["id"],
                "results": [{"subject": A, "sid": 1, "epoch": EPOCH, "seq": 5}]})  # fmt: skip
    assert story.gets(7, sid=1) == ["gap"]


def test_a_new_connection_asks_for_all_subjects_from_where_each_was(story: Story) -> None:
    story.answers(seq=5)
    story.state.following.subscribe("owner", [B], history=10)
    story.answers(seq=9, messages=4)
    story.gets(6, sid=1)
    story.gets(6, "historical", sid=2)
    story.state.lose()
    assert story.gets(7, sid=1) == []
    story.connects()
    connect, *subscribes = story.sent()
    assert connect["op"] == "connect"
    assert [(command["subjects"], command.get("history"), command["since"]) for command in subscribes] == [
        ([A, B], None, {A: [EPOCH, 6], B: [EPOCH, 6]})]  # fmt: skip


def test_recovered_messages_that_were_seen_are_dropped(story: Story) -> None:
    story.answers(seq=5)
    story.state.lose()
    story.connects()
    assert story.answers(seq=7, recovery="recovered", messages=3) == [Status(name="recovered", subject=A)]
    assert [story.gets(seq, "recovered") for seq in (5, 6, 7)] == [[], ["6"], ["7"]]
    assert story.gets(8) == ["8"]


def test_resynchronised_in_a_new_epoch_starts_with_the_snapshot(story: Story) -> None:
    story.answers(seq=50)
    story.state.lose()
    story.connects()
    new = EPOCH + 1
    told = story.answers(epoch=new, seq=3, recovery="resynchronised", messages=1)
    assert told == [Status(name="resynchronised", subject=A)]
    assert story.position() == (EPOCH, 50)
    assert story.gets(3, "snapshot") == ["3"]
    assert story.position() == (new, 3)
    assert story.gets(4) == ["4"]


VOID = Status(name="resynchronised", subject=A, reason="what was read last is void")


def test_a_new_epoch_on_the_way(story: Story) -> None:
    """Numbers go on over epochs: it is news only for who has read what the new epoch does not have."""
    story.answers(seq=5)
    assert story.says({"op": "epoch", "sid": 1, "epoch": EPOCH + 9, "seq": 5}) == []
    [event] = story.says([1, 6, 0, "x"])
    assert isinstance(event, Arrived) and (event.message.epoch, event.message.seq) == (EPOCH + 9, 6)
    assert story.says({"op": "epoch", "sid": 1, "epoch": EPOCH + 10, "seq": 4}) == [VOID]
    assert story.position() == (EPOCH + 10, 4)
    assert [story.gets(seq) for seq in (4, 5)] == [[], ["5"]]
    assert story.position() == (EPOCH + 10, 5)
    assert story.says({"op": "epoch", "sid": 99, "epoch": 1, "seq": 0}) == []


def test_a_new_epoch_that_is_ahead_is_a_gap(story: Story) -> None:
    """Also when nothing follows it: what the subject holds in the new epoch is asked for."""
    story.answers(seq=5)
    story.state.take_out()
    told = story.says({"op": "epoch", "sid": 1, "epoch": EPOCH + 9, "seq": 7})
    assert told == [Status(name="gap", subject=A, reason="5 was followed by 8")]
    assert story.position() == (EPOCH + 9, 5)
    [command] = story.sent()
    assert command["since"] == {A: [EPOCH + 9, 5]}


def test_recovered_over_epochs(story: Story) -> None:
    """The missed messages stood in an older epoch or in this one: their numbers go on."""
    story.answers(seq=5)
    story.state.lose()
    story.connects()
    assert story.answers(epoch=EPOCH + 1, seq=7, recovery="recovered", messages=2) == [
        Status(name="recovered", subject=A)]  # fmt: skip
    assert [story.gets(seq, "recovered") for seq in (6, 7)] == [["6"], ["7"]]
    assert story.position() == (EPOCH + 1, 7)
    # A server that is behind, in the epoch before: nothing of it is news, whatever its number.
    story.state.lose()
    story.connects()
    story.answers(epoch=EPOCH, seq=9, recovery="recovered", messages=1)
    assert story.gets(9, "recovered") == []


@pytest.mark.parametrize("error", ["denied", "not_ready"])
def test_without_the_right_a_subscription_waits(story: Story, error: str) -> None:
    seconds = RETRY_MS / 1000 if error == "not_ready" else 0
    assert story.answers(error=error) == [Status(name=error, subject=A, reason="so", retry_seconds=seconds)]
    result = {"subject": A, "sid": 7, "epoch": EPOCH, "seq": 3}
    assert story.says({"op": "subscribed", "results": [result]}) == [
        Status(name="granted", subject=A), Status(name="subscribed", subject=A)]  # fmt: skip
    assert story.gets(4, sid=7) == ["4"]


@pytest.mark.parametrize(("error", "kind"), [("invalid", Invalid), ("limit", Limited)])
def test_a_subscription_that_cannot_work_is_forgotten(story: Story, error: str, kind: type[Exception]) -> None:
    [event] = story.answers(error=error)
    assert isinstance(event, SubscriptionRefused)
    assert (event.owner, event.subject, type(event.error)) == ("owner", A, kind)
    assert story.state.following.wanted.subjects == {}


def test_an_error_to_the_whole_command_refuses_all_its_subjects(story: Story) -> None:
    story.state.following.subscribe("other", [B, "/a/c"])
    command = story.sent()[-1]
    events = story.says({"op": "error", "id": command["id"], "code": "invalid", "reason": "no"})
    assert [(event.owner, event.subject) for event in events if isinstance(event, SubscriptionRefused)] == [
        ("other", B), ("other", "/a/c")]  # fmt: skip


def test_who_is_refused_beside_others_goes_alone(story: Story) -> None:
    """Such as for its options: those who had the subject before go on."""
    story.answers(seq=5)
    story.state.following.subscribe("other", [A], history=1 << 40)
    command = story.sent()[-1]
    [event] = story.says({"op": "error", "id": command["id"], "code": "invalid", "reason": "no"})
    assert isinstance(event, SubscriptionRefused)
    assert event.owner == "other"
    assert story.gets(6) == ["6"]


def test_revoked_then_granted_again_starts_afresh(story: Story) -> None:
    story.answers(seq=5)
    assert story.says({"op": "revoked", "subjects": [A], "reason": "rule 12"}) == [
        Status(name="revoked", subject=A, reason="rule 12")]  # fmt: skip
    assert story.gets(6) == []
    assert story.position() == (EPOCH, 5)
    story.says({"op": "subscribed", "results": [{"subject": A, "sid": 8, "epoch": EPOCH, "seq": 9, "messages": 1}]})
    assert story.gets(9, "snapshot", sid=8) == ["9"]
    assert story.gets(10, sid=8) == ["10"]


def test_unsubscribed_nothing_more_is_delivered(story: Story) -> None:
    story.answers(seq=5)
    [number] = story.state.following.unsubscribe([A, "/never/asked"])
    assert story.sent() == [{"op": "unsubscribe", "id": number, "subjects": [A]}]
    assert story.gets(6) == []
    [event] = story.says({"op": "unsubscribed", "id": number, "subjects": [A]})
    assert isinstance(event, Answered) and event.id == number


def test_an_answer_to_an_earlier_command_does_not_count(story: Story) -> None:
    [_, first] = story.sent()
    story.state.following.unsubscribe([A])
    story.state.following.subscribe("other", [A])
    result = {"subject": A, "sid": 1, "epoch": EPOCH, "seq": 3}
    assert story.says({"op": "subscribed", "id": first["id"], "results": [result]}) == []
    assert story.gets(4, sid=1) == []
    assert story.answers(seq=4) == [Status(name="subscribed", subject=A)]
    assert story.gets(5) == ["5"]


def test_before_there_is_a_connection_nothing_is_sent_but_all_is_kept() -> None:
    story = Story()
    story.state.following.subscribe("owner", [A, B], since={A: (EPOCH, 4)})
    assert story.state.following.unsubscribe([B]) == []
    assert story.sent() == []
    story.connects()
    assert story.sent()[1]["since"] == {A: [EPOCH, 4]}
    assert story.state.user == "ann"


def test_many_subjects_are_asked_for_in_parts() -> None:
    story = Story()
    story.connects()
    subjects = [f"/s/{number}" for number in range(2 * SUBJECTS_PER_COMMAND + 1)]
    story.state.following.subscribe("owner", subjects)
    commands = story.sent()[1:]
    assert [len(command["subjects"]) for command in commands] == [SUBJECTS_PER_COMMAND, SUBJECTS_PER_COMMAND, 1]
    assert [subject for command in commands for subject in command["subjects"]] == subjects


def test_position_as_a_program_may_keep_it(story: Story) -> None:
    story.state.following.subscribe("owner", [A], since={A: Position(EPOCH, 2)})
    assert story.sent()[-1]["since"] == {A: [EPOCH, 2]}


@pytest.mark.parametrize("data", [b"", b"\xff", b"7", b'"x"', b"[1]", b'{"op":"nonsense"}', b"[1,2,3,{}]"])
def test_what_is_no_frame_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(BadFrame):
        ClientState("json").receive(data)


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        ({"op": "expiring", "expires": 5}, Status(name="expiring")),
        (
            {"op": "notice", "code": "drain", "text": "soon"},
            Status(name="notice", notice="drain", reason="drain: soon"),
        ),
        ({"op": "error", "code": "limit", "reason": "r"}, Status(name="error", reason="limit: r")),
    ],
)
def test_what_the_server_says_unasked(story: Story, frame: dict[str, Any], status: Status) -> None:
    assert story.says(frame) == [status]


def test_a_server_that_drains_names_others(story: Story) -> None:
    events = story.says({"op": "notice", "code": "drain", "text": "bye", "servers": [["ws://b/ws", 50]]})
    assert events[0] == NamedServers([("ws://b/ws", 50)])


def test_times_count_from_the_base(story: Story) -> None:
    story.answers()
    assert story.says({"op": "base", "base": 5000}) == []
    [event] = story.says([1, 1, 7, "x"])
    assert isinstance(event, Arrived) and event.message.time == 5007


def test_ids_of_another_server_are_other_ids(story: Story) -> None:
    """After a restart the ids of subjects may have changed places; each still gets its own messages."""
    story.state.following.subscribe("owner", [B])
    for ids, epoch in (((1, 2), EPOCH), ((2, 1), EPOCH + 1)):
        asked = [command for command in story.sent() if command["op"] == "subscribe"]
        for command in asked:
            results = [
                {"subject": subject, "sid": ids[subject == B], "epoch": epoch, "seq": 0}
                for subject in command["subjects"]
            ]
            story.says({"op": "subscribed", "id": command["id"], "results": results})
        for subject, sid in zip((A, B), ids, strict=True):
            events = story.says([sid, 1, 0, "x"])
            assert [event.message.subject for event in events if isinstance(event, Arrived)] == [subject]
        story.state.lose()
        story.connects()
