"""What a bare reader is told of the protocol's events, and the cursors that come with them."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from fastpath.core.events.cursor import CURSOR_BYTES_MAX, UNKNOWN, decode_cursor
from fastpath.core.events.described import DescribedEvents, Streams
from fastpath.core.events.framing import PING, encode_goodbye
from fastpath.core.protocol.codec import SSE, encode_data
from fastpath.core.protocol.messages import (
    AnyAnswer,
    Base,
    CaughtUp,
    Connected,
    Data,
    Epoch,
    Error,
    Expiring,
    Lagging,
    Meta,
    Notice,
    Result,
    Revoked,
    Subscribed,
)
from fastpath.core.wires.registry import wire_of

IBM, EPOCH = "/stocks/us/IBM", 1_700_000_000_000
BASE = 1_700_000_001_000


def row(seq: int, content: str | bytes = "193", sid: int = 17, **more: Any) -> Data:
    return Data(sid=sid, seq=seq, t=5, content=content, fields=more.pop("fields", {}), meta=Meta(**more))


def stream(*values: AnyAnswer | Data | bytes) -> bytes:
    """What the broker sends of these."""
    return b"".join(
        value
        if isinstance(value, bytes)
        else wire_of(SSE).message(encode_data(value, SSE))
        if isinstance(value, Data)
        else wire_of(SSE).event(value)
        for value in values
    )


class Reader:
    """A reader that has asked for these; ``tell`` gives what it hears: name, cursor and content of each event."""

    def __init__(self, *asked: str, since: dict[str, tuple[int, int]] | None = None) -> None:
        self.asked = list(asked or (IBM,))
        self.events = DescribedEvents(self.asked, since or {})

    def tell(self, *values: AnyAnswer | Data | bytes) -> list[tuple[str, dict[str, tuple[int, int]], Any]]:
        heard = []
        told, self.events = self.events.follow(stream(*values))
        for event in told.split(b"\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in event.decode().split("\n") if not line.startswith(":"))
            if lines:
                cursor = lines.get("id", "")
                where = decode_cursor(cursor, self.asked) if cursor and cursor != UNKNOWN else {}
                heard.append((lines.get("event", "message"), where, json.loads(lines["data"])))
        return heard


def subscribed(seq: int = 41, sid: int = 17, subject: str = IBM, **more: Any) -> Subscribed:
    return Subscribed(results=[Result(subject=subject, sid=sid, epoch=EPOCH, seq=seq, **more)])


def test_a_message_says_all_that_it_is() -> None:
    reader = Reader()
    assert reader.tell(Base(base=BASE), subscribed()) == [
        ("subscribed", {IBM: (EPOCH, 41)}, {"subject": IBM, "epoch": EPOCH, "seq": 41})
    ]
    ((name, cursor, content),) = reader.tell(row(42, fields={"bid": "1", "raw": b"\xff"}))
    assert (name, cursor) == ("message", {IBM: (EPOCH, 42)})
    assert content == {
        "subject": IBM,
        "content": "193",
        "fields": {"bid": "1", "raw": {"b": "/w=="}},
        "epoch": EPOCH,
        "seq": 42,
        "time": BASE + 5,
        "kind": "update",
    }
    ((_, _, content),) = reader.tell(
        row(43, b"\xff", retained=False, reply_to="/a/b", closure="c", as_of={"batch": 7}, kind="recovered")
    )
    assert content == {
        "subject": IBM,
        "content": {"b": "/w=="},
        "fields": {},
        "epoch": EPOCH,
        "seq": 43,
        "time": BASE + 5,
        "kind": "recovered",
        "retained": False,
        "reply_to": "/a/b",
        "closure": "c",
        "as_of": {"batch": 7},
    }
    ((name, cursor, content),) = reader.tell(row(44, "", removed=True))
    assert (name, cursor) == ("message", {IBM: (EPOCH, 44)})
    assert (content["content"], content["kind"], content["removed"]) == ("", "update", True)


def test_a_snapshot_is_where_the_reader_stands_only_once_it_is_sent() -> None:
    reader = Reader()
    ((_, cursor, _),) = reader.tell(subscribed(messages=1))
    assert cursor == {}
    assert [cursor for _, cursor, _ in reader.tell(row(41, kind="snapshot"), row(42))] == [
        {IBM: (EPOCH, 41)},
        {IBM: (EPOCH, 42)},
    ]


def test_what_is_recovered_goes_on_from_where_the_reader_was() -> None:
    reader = Reader()
    ((name, cursor, _),) = reader.tell(subscribed(recovery="recovered", messages=2))
    assert (name, cursor) == ("recovered", {IBM: (EPOCH, 39)})
    heard = reader.tell(row(40, kind="recovered"), row(41, kind="recovered"), row(42))
    assert [content["seq"] for _, _, content in heard] == [40, 41, 42]


def test_where_it_was_holds_until_a_subject_begins_again() -> None:
    """Those of a pattern are found later than those by name, and the stream may be cut before."""
    reader = Reader(IBM, "/more/*", since={IBM: (EPOCH, 39), "/more/a": (EPOCH, 7)})
    ((_, cursor, _),) = reader.tell(subscribed(recovery="recovered", messages=2))
    assert cursor == {IBM: (EPOCH, 39), "/more/a": (EPOCH, 7)}
    ((_, cursor, _),) = reader.tell(row(40, kind="recovered"))
    assert cursor == {IBM: (EPOCH, 40), "/more/a": (EPOCH, 7)}
    more = subscribed(9, 18, "/more/a", pattern="/more/*", recovery="recovered", messages=1)
    assert [cursor["/more/a"] for _, cursor, _ in reader.tell(more, row(9, sid=18))] == [(EPOCH, 8), (EPOCH, 9)]


def test_each_message_comes_once_and_a_gap_is_told() -> None:
    reader = Reader()
    reader.tell(subscribed())
    heard = reader.tell(row(42), row(42), row(41), row(44), row(0), row(45))
    assert [(name, content.get("seq")) for name, _, content in heard] == [
        ("message", 42),
        ("resynchronised", None),
        ("message", 44),
        ("message", 0),
        ("message", 45),
    ]
    assert heard[3][1] == {IBM: (EPOCH, 44)}, "standard quality has no position"


def test_numbers_rise_by_more_where_messages_are_merged() -> None:
    reader = Reader()
    reader.tell(subscribed(conflation=500))
    assert [name for name, _, _ in reader.tell(row(44), row(50))] == ["message", "message"]
    reader = Reader()
    reader.tell(subscribed())
    heard = reader.tell(Lagging(sids=[17, 99]), row(44), CaughtUp(sids=[17]), row(46))
    assert [name for name, _, _ in heard] == ["lagging", "message", "caught_up", "resynchronised", "message"]
    assert heard[0][2] == {"subjects": [IBM]}


def test_another_epoch_goes_on_from_what_is_not_void() -> None:
    reader = Reader()
    reader.tell(subscribed(), row(42))
    ((name, cursor, content),) = reader.tell(Epoch(sid=17, epoch=EPOCH + 1, seq=42))
    assert (name, cursor) == ("epoch", {IBM: (EPOCH + 1, 42)})
    assert content == {"subject": IBM, "epoch": EPOCH + 1, "seq": 42}
    heard = reader.tell(Epoch(sid=17, epoch=EPOCH + 2, seq=40), row(41))
    assert [name for name, _, _ in heard] == ["epoch", "resynchronised", "message"]
    assert heard[0][1] == {IBM: (EPOCH + 2, 40)}
    assert reader.tell(Epoch(sid=99, epoch=1, seq=1)) == []


def test_patterns_have_all_their_subjects_in_the_cursor() -> None:
    reader = Reader("/stocks/**")
    reader.tell(
        subscribed(5, 1, "/stocks/a", pattern="/stocks/**"), subscribed(6, 2, "/stocks/b", pattern="/stocks/**")
    )
    ((_, cursor, _),) = reader.tell(row(7, sid=2))
    assert cursor == {"/stocks/a": (EPOCH, 5), "/stocks/b": (EPOCH, 7)}


def test_more_subjects_than_a_cursor_holds_are_none() -> None:
    reader = Reader("/many/**")
    count = CURSOR_BYTES_MAX // 20
    for sid in range(count):
        reader.tell(subscribed(1, sid, f"/many/subjects/{sid}", pattern="/many/**"))
    assert b"id: -\n" in reader.events.follow(stream(row(2, sid=3)))[0]


def test_streams_that_stand_at_the_same_place_are_one() -> None:
    """Also where they have come there in other ways; what is different of them stays so."""
    streams, other = Streams(), "/stocks/us/AAPL"

    def stand(*pieces: bytes, asked: tuple[str, ...] = (IBM, other)) -> DescribedEvents:
        at = DescribedEvents(asked, {})
        for piece in pieces:
            _, at = streams.follow(at, piece)
        return at

    both = (stream(subscribed()), stream(subscribed(7, 18, other)))
    early = stand(*both, stream(row(42), row(8, sid=18)))
    late = stand(stream(subscribed(42), subscribed(7, 18, other)), stream(row(8, sid=18)))
    assert early is late
    assert stand(*both) is not early
    assert stand(*both, stream(row(42), row(8, sid=18)), asked=(other, IBM)) is not early
    assert stand(*both, stream(Base(base=BASE), row(42), row(8, sid=18))) is not early
    before = stand(*both)
    told, behind = streams.follow(before, stream(row(42), row(8, sid=18)))
    assert behind is early
    assert streams.follow(before, stream(row(42), row(8, sid=18)))[0] == told, "it has not changed"


def test_answers_by_their_names() -> None:
    reader = Reader()
    told = reader.tell(
        Connected(id=0, server="9f", epoch=1, user="ann", time=2, base=BASE, ping_ms=25000),
        Subscribed(results=[Result(subject="/a/b", error="denied", reason="no rule allows it")]),
        Subscribed(results=[Result(subject="/a/c", error="not_ready", reason="later", retry_ms=500)]),
        subscribed(recovery="resynchronised"),
        Revoked(subjects=["/a/b"], reason="rule 12 denies it"),
        Error(id=1, code="limit", reason="too many"),
        Expiring(expires=5),
        Notice(code="drain", text="go", servers=[("ws://a", 100)]),
        PING,
        encode_goodbye(4000, "drain: go"),
    )
    assert [(name, content) for name, _, content in told] == [
        ("connected", {"server": "9f", "user": "ann", "time": 2, "ping_ms": 25000}),
        ("denied", {"subject": "/a/b", "reason": "no rule allows it"}),
        ("not_ready", {"subject": "/a/c", "reason": "later", "retry_ms": 500}),
        ("resynchronised", {"subject": IBM, "epoch": EPOCH, "seq": 41}),
        ("revoked", {"subjects": ["/a/b"], "reason": "rule 12 denies it"}),
        ("refused", {"code": "limit", "reason": "too many"}),
        ("expiring", {"expires": 5}),
        ("notice", {"code": "drain", "text": "go", "servers": [["ws://a", 100]]}),
        ("close", {"code": 4000, "reason": "drain: go"}),
    ]


def test_a_row_without_a_subject_is_not_told() -> None:
    assert Reader().tell(row(1)) == []


def test_the_content_stays_as_it_is() -> None:
    """Text with all that JSON escapes."""
    reader = Reader()
    reader.tell(subscribed())
    for seq, text in enumerate(('a"b\\c\n\r\x00', "data: \n\n", "🜚]},", ""), 42):
        ((_, _, content),) = reader.tell(row(seq, text))
        assert content["content"] == text


def test_a_message_costs_as_much_however_many_subjects_there_are() -> None:
    """A step keeps what it changes, and shares the rest with the one before; all of them stay what they are."""
    streams, count = Streams(), 20_000
    results = [Result(subject=f"/n/{sid}", sid=sid, epoch=EPOCH, seq=1) for sid in range(count)]
    _, at = streams.follow(DescribedEvents(["/n/*"], {}), stream(Base(base=BASE), Subscribed(results=results)))
    kept = [at]
    tracemalloc.start()
    for number in range(10):
        told, at = streams.follow(at, stream(row(2, sid=number)))
        kept.append(at)
        assert b'"seq":2' in told
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 200_000, "one copy of all places would be larger"
    for number in range(200):  # over what a step may have of its own
        _, at = streams.follow(at, stream(row(3, sid=number)))
    assert at.count == count
    assert streams.follow(at, stream(*(row(3, sid=number) for number in range(200))))[0] == b""
    for number, before in enumerate(kept[:-1]):
        assert b'"seq":2' in streams.follow(before, stream(row(2, sid=number)))[0], "it has not been told there"


def test_streams_are_one_however_their_places_came_to_be() -> None:
    streams = Streams()
    results = [Result(subject=f"/n/{sid}", sid=sid, epoch=EPOCH, seq=1) for sid in range(300)]
    _, one = streams.follow(DescribedEvents(["/n/*"], {}), stream(Base(base=BASE), Subscribed(results=results)))
    other = DescribedEvents(["/n/*"], {})
    _, other = streams.follow(other, stream(Base(base=BASE)))
    for each in reversed(results):
        _, other = streams.follow(other, stream(Subscribed(results=[each])))
    assert one is other
