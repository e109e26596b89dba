"""Frames as lines: what is made of a payload, and a queue cut into lines again."""

from __future__ import annotations

import json

import pytest

from fastpath.core.events.lines import encode_last_line, encode_line, sid_of_line, split_lines


def test_a_queue_is_its_lines() -> None:
    lines = [encode_line(b'[7,1,2,"x"]'), encode_line(b'{"op":"pong"}')]
    assert split_lines(b"".join(lines)) == lines
    assert split_lines(b"") == []
    with pytest.raises(ValueError, match="no whole lines"):
        split_lines(lines[0][:-1])


def test_whose_message_a_line_is() -> None:
    assert sid_of_line(b'[17,1,2,"x"]\n') == 17
    assert sid_of_line(b'{"op":"pong"}\n') == -1


def test_the_last_line_says_why() -> None:
    line = encode_last_line(4001, "slow_consumer: é\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"close": 4001, "reason": "slow_consumer: é\n"}
