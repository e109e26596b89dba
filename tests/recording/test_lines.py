"""The lines of a recording: what is written is read again as the same, and all else is refused in words."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.client.message import Message, Status
from fastpath.recording.lines import (
    End,
    Happened,
    Header,
    Recorded,
    RecordingError,
    decode,
    encode,
    happened,
    public_address,
    recorded,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = TEXT | st.binary(max_size=20)
TIME = st.integers(0, 1 << 53)
MESSAGES = st.builds(
    Message,
    subject=TEXT,
    content=VALUE,
    fields=st.dictionaries(TEXT, VALUE, max_size=4),
    epoch=TIME,
    seq=TIME,
    time=st.integers(-(1 << 53), 1 << 53),
    kind=st.sampled_from(["update", "snapshot", "recovered", "historical"]),
    retained=st.booleans(),
    reply_to=TEXT,
    closure=TEXT,
    as_of=st.none() | TEXT | TIME,
    removed=st.booleans(),
)


@given(MESSAGES, TIME)
@settings(max_examples=50, deadline=None)
def test_a_message_is_read_again_as_it_was(message: Message, at_us: int) -> None:
    """With text and bytes told apart, on one line of JSON."""
    line = encode(recorded(message, at_us))

    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert json.loads(line)["type"] == "message"
    found = decode(line)
    assert isinstance(found, Recorded)
    assert (found.at_us, found.value, found.values, found.qos) == (at_us, message.content, message.fields, message.qos)
    for name in ("subject", "epoch", "seq", "time", "kind", "retained", "reply_to", "closure", "as_of", "removed"):
        assert getattr(found, name) == getattr(message, name), name


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | TEXT, st.lists).map(msgspec.json.encode))
@settings(max_examples=50, deadline=None)
def test_any_other_bytes_are_refused_in_words(data: bytes) -> None:
    """Whatever stands there, nothing else is raised."""
    with pytest.raises(RecordingError, match="no line of a recording"):
        decode(data)


@pytest.mark.parametrize(
    "line",
    [
        Header(version=1, at_us=1, subjects=["/a/**"], part=3, server="ws://h/ws", history=5, conflation=100),
        Happened(at_us=2, name="disconnected", code=4000, reason="drain", url="ws://h/ws"),
        End(at_us=3, messages=4, why="bytes"),
    ],
)
def test_the_other_lines_are_read_again_as_they_were(line: Header | Happened | End) -> None:
    """The header, a status, the end."""
    assert decode(encode(line)) == line


def test_the_format_is_this() -> None:
    """As docs/develop/recording.md has it: others read these files too."""
    message = Message(
        subject="/a/b", content=b"\x00\xff", fields={"bid": "1", "raw": b"\x01"}, epoch=7, seq=0, time=5, retained=False
    )

    assert encode(recorded(message, 6)) == (
        b'{"type":"message","at_us":6,"time":5,"subject":"/a/b","epoch":7,"qos":"standard","retained":false,'
        b'"content":{"b":"AP8="},"fields":{"bid":"1","raw":{"b":"AQ=="}}}\n'
    )
    assert encode(Header(version=1, at_us=1, server="ws://h/ws", subjects=["/a/*"])) == (
        b'{"type":"recording","version":1,"at_us":1,"server":"ws://h/ws","subjects":["/a/*"]}\n'
    )


def test_another_version_is_refused() -> None:
    """It may mean something else by the same names."""
    with pytest.raises(RecordingError, match="version 2; this program reads version 1"):
        decode(b'{"type":"recording","version":2,"at_us":1,"subjects":[]}')


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"message","at_us":-1,"time":1,"subject":"/a/b","content":"x"}',
        '{"type":"message","at_us":1,"time":1e300,"subject":"/a/b","content":"x"}',
        '{"type":"message","at_us":9999999999999999999,"time":1,"subject":"/a/b","content":"x"}',
        '{"type":"message","at_us":1,"time":1,"subject":"/a/b"}',
        '{"type":"message","at_us":1,"time":1,"subject":"/a/b","content":{"b":"%"}}',
        '{"type":"message","at_us":1,"time":1,"subject":"/a/b","content":"x","fields":{"f":1}}',
        '{"type":"other"}',
    ],
)
def test_values_that_mean_nothing_are_refused(line: str) -> None:
    """Times before 1970 or after the year 2255, contents that are none."""
    with pytest.raises(RecordingError, match="no line of a recording"):
        decode(line.encode())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ws://127.0.0.1:8800/ws", "ws://127.0.0.1:8800/ws"),
        ("wss://ann:secret@h.example.com/ws?token=secret#x", "wss://h.example.com/ws"),
        ("127.0.0.1:8801", "127.0.0.1:8801"),
        ("tls://ann:secret@h:8801", "tls://h:8801"),
        ("ws://ann:secret@h/ws?token=secret,ws://bob:secret@i/ws", "ws://h/ws,ws://i/ws"),
    ],
)
def test_no_secret_of_an_address_is_written_down(url: str, shown: str) -> None:
    """Neither a password nor a token."""
    assert public_address(url) == shown
    assert happened(Status(name="connected", url=url), 1).url == shown
