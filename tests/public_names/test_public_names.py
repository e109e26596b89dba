"""Everything that revision aa72b5c named for others is named so today; new names may come.

``names.json`` has what settings, commands, clients, tables, verbs and metrics were called there, and their defaults;
the tables below are what protocol.md said then. Nobody makes them anew because something has gone: who needs a name to
go says so in CHANGELOG.md and in ``CHANGED``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.public_names.collect import NAMES, of_code, with_journal, with_redis
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import ROOT, Sidecar

BEFORE: dict[str, Any] = json.loads(NAMES.read_text(encoding="utf-8"))

CHANGED: dict[str, str] = {}
"""What has gone or is different on purpose, as the failure names it, and why."""

COMMANDS = {
    "connect": ({}, "connected"),
    "subscribe": ({"subjects": ["/names/a"]}, "subscribed"),
    "unsubscribe": ({"subjects": ["/names/a"]}, "unsubscribed"),
    "publish": ({"subject": "/names/a", "content": "x", "closure": "c"}, "published"),
    "token": ({"token": ""}, "renewed"),
    "ping": ({}, "pong"),
    "presence": ({"subject": "/names/a"}, "present"),
    "advertise": ({"patterns": ["/names/**"]}, "advertised"),
}
"""Commands of a client, what they need, and their answers (protocol.md 3 and 4)."""

FRAMES = {
    "batch": ([[["/names/b", "x"]]], "ack"),
    "ping": ([], "pong"),
    "advertise": ([["/names/**"]], "advertised"),
    "stage": ([["names", 0, 0, 1, 0], 1, [["/names/b", ["y"], None, None]]], "staged"),
    "commit": (["names", 0, [[0, 1, 1]], {}], "committed"),
    "abort": (["names", 1, None, None], "aborted"),
    "positions": ([["/names/*"], {}], "positions"),
    "read": ([[["/names/c", None, None]]], "read"),
    "report": (["job", {"state": "running"}], "reported"),
}
"""Frames of a publisher, what follows their number, and their answers (protocol.md 6)."""


def missing(before: dict[str, Any], now: dict[str, Any], path: str = "") -> Iterator[str]:
    """What is not there any more, or is different."""
    for name, value in before.items():
        place = f"{path} / {name}" if path else name
        if name not in now:
            yield f"{place} is gone (it was: {value if isinstance(value, str | int) else 'there'})"
        elif isinstance(value, dict) and isinstance(now[name], dict):
            yield from missing(value, now[name], place)
        elif value != now[name]:
            yield f"{place} was {value}, and is {now[name]}"


def check(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Nothing is missing but what is meant to be."""
    assert before
    assert not [line for line in missing(before, now) if line not in CHANGED]


@pytest.fixture(scope="module")
def code() -> dict[str, Any]:
    """What the modules of this checkout name."""
    return of_code(ROOT)


@pytest.mark.parametrize("part", sorted(set(BEFORE) - {"sidecar", "sidecar on Redis"}))
def test_no_name_of_the_code_has_gone(code: dict[str, Any], part: str) -> None:
    check(BEFORE[part], code[part])


def test_no_verb_figure_or_metric_has_gone() -> None:
    check(BEFORE["sidecar"], with_journal(ROOT))


@pytest.mark.redis
def test_no_verb_figure_or_metric_has_gone_with_redis() -> None:
    check(BEFORE["sidecar on Redis"], with_redis(ROOT))


@pytest.fixture(scope="module")
def everything() -> Iterator[Sidecar]:
    """A sidecar that answers all commands."""
    with Sidecar(presence="/names/**") as running:
        yield running


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_a_client_is_answered(everything: Sidecar, command: str) -> None:
    keys, answer = COMMANDS[command]
    with WireClient(everything) as client:
        number = client.say(command, **keys)
        while (got := client.next()).get("id") != number:
            pass
        assert got["op"] == answer, got


@pytest.mark.parametrize("command", FRAMES)
def test_each_frame_of_a_publisher_is_answered(everything: Sidecar, command: str) -> None:
    rest, answer = FRAMES[command]
    with WirePublisher(everything) as publisher:
        if command == "commit":
            publisher.packet("stage", 1, *FRAMES["stage"][0])
            assert publisher.next()[0] == "staged"
        publisher.packet(command, 2, *rest)
        while (got := publisher.next())[0] in ("position", "progress", "rows"):
            pass
        assert got[0] == answer, got


def test_what_is_unknown_is_told_so(everything: Sidecar) -> None:
    with WireClient(everything) as client:
        assert "unknown op" in client.ask("subscribee", "error")["reason"]
    with WirePublisher(everything) as publisher:
        publisher.packet("stages", 1)
        with pytest.raises(Ended, match="not a frame"):
            publisher.next()


def test_what_goes_is_seen() -> None:
    before = {"a": {"b": "1", "c": "2"}, "d": {"e": "3"}}
    assert list(missing(before, before | {"f": {}})) == []
    now = {"a": {"b": "2"}, "d": {"e": "3"}}
    assert list(missing(before, now)) == ["a / b was 1, and is 2", "a / c is gone (it was: 2)"]
