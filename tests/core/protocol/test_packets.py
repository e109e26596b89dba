"""A publisher's batch: the usual is decoded at once, the rest row by row, and no row can say more than it may."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.protocol.limits import FIELD_NAME_BYTES_MAX, FIELDS_MAX
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import (
    Batch,
    Log,
    Refusal,
    Unpacker,
    pack,
    read_publications,
    unpack_published,
)
from fastpath.edge.node.messages import Copied, decode

TEXT_ROWS = st.lists(
    st.tuples(st.text(max_size=5), st.text(max_size=5), st.none() | st.dictionaries(st.text(min_size=1), st.text())),
    max_size=5,
)


def read(rows: list[Any]) -> tuple[list[Message], dict[int, Refusal]]:
    """As the publisher port does."""
    [packet] = Unpacker(1 << 20, unpack_published).feed(pack(["batch", 1, rows]))
    return read_publications(packet.messages if isinstance(packet, Batch) else packet[2])


def shown(message: Message) -> tuple[Any, ...]:
    """What a publisher can say of a message."""
    return (message.subject, message.content, message.fields or {}, message.retained, message.qos, message.closure)


@given(TEXT_ROWS)
def test_both_ways_read_the_same(rows: list[tuple[Any, ...]]) -> None:
    """The quick way of a batch of texts, and the careful way that one odd row sends the whole batch on."""
    quick, refused = read([list(row) for row in rows])
    assert not refused
    careful, refused = read([*map(list, rows), ["/odd/row", b"\xff", {"x": b"\xfe"}]])
    assert not refused
    assert [shown(message) for message in quick] == [shown(message) for message in careful[:-1]]
    assert shown(careful[-1])[:3] == ("/odd/row", b"\xff", {"x": b"\xfe"})


def test_a_row_with_meta_is_read_beside_plain_ones() -> None:
    """In its place."""
    messages, refused = read([["/a/b", "1"], ["/a/b", "2", None, {"retained": False, "closure": "c"}], ["/a/b", "3"]])
    assert not refused
    assert [(one.content, one.retained, one.closure, one.meta) for one in messages] == [
        ("1", True, None, None),
        ("2", False, "c", None),
        ("3", True, None, None),
    ]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (["/a/b"], "invalid"),
        (["/a/b", "x", None, None, 5], "invalid"),
        (["/a/b", "x", None, None, 0, 7, 1 << 60], "invalid"),
        (["/a/b", 7], "invalid"),
        ([7, "x"], "invalid"),
        (["/a/b", None], "invalid"),
        (["/a/b", "x", {"": "y"}], "invalid"),
        (["/a/b", "x", {"n" * (FIELD_NAME_BYTES_MAX + 1): "y"}], "invalid"),
        (["/a/b", "x", {"n": 7}], "invalid"),
        (["/a/b", "x", {str(number): "" for number in range(FIELDS_MAX + 1)}], "too_large"),
        (["/a/b", "x", None, {"qos": "best"}], "invalid"),
        (["/a/b", "x", None, ["meta"]], "invalid"),
        ("/a/b", "invalid"),
        ({"subject": "/a/b"}, "invalid"),
    ],
)
def test_a_bad_row_is_refused_alone(row: Any, code: str) -> None:
    """The rows beside it count; nothing sets a number, a time or a size."""
    messages, refused = read([["/a/b", "before"], row, ["/a/b", "after"]])
    assert [message.content for message in messages] == ["before", "after"]
    assert {index: refusal[0] for index, refusal in refused.items()} == {1: code}
    assert all((one.epoch, one.seq, one.time, one.size, one.plain) == (0, 0, 0, 0, False) for one in messages)


def test_a_batch_of_anything_else_is_left_to_the_port() -> None:
    """Which knows what to say of it."""
    for packet in (["batch", "x", []], ["batch"], ["hello", {}], ["batch", 1, "rows"]):
        assert Unpacker(1 << 20, unpack_published).feed(pack(packet)) == [packet]


def test_the_log_between_workers_carries_every_attribute() -> None:
    """What no publisher's row may set, and bytes; other packets of a link are left as they are."""
    messages = [
        Message("/a/b", "x", None, None, 7, 1, 1_700_000_000_000, 1, True),
        Message(
            "/a/b", b"x", {"n": b"y", "m": "z"}, None, 7, 2, 1, 4, False, False, "standard", "/r", "c", 5, "1:ap", 6
        ),
    ]
    data = pack(["log", 9, messages]) + pack(["copied", 9])
    log, other = Unpacker(1 << 20, decode).feed(data)
    assert isinstance(log, Log)
    assert other == Copied(9)
    assert log.position == 9
    assert pack(["log", 9, log.messages]) + pack(other) == data
    assert [one.fields for one in log.messages] == [None, {"n": b"y", "m": "z"}]
