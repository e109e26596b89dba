"""Recorded from a real server and replayed to one: everything comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.publisher.publisher import Publisher
from fastpath.recording.__main__ import main
from tests.support.recording.samples import message, messages, read, said, write
from tests.support.sidecar import Sidecar

ROWS: list[list[Any]] = [
    ["/a/text", "193.20", {"bid": "193.19", "name": "Übung ☃ \u2028 \x00"}],
    ["/a/bytes", b"\x00\xff\x80", {"raw": bytes(range(256)), "empty": ""}],
    ["/a/passing", "not kept", None, {"retained": False}],
    ["/b/c/d", "answer me", None, {"reply_to": "/inbox/ann", "closure": "c-17", "as_of": "2020-01-01"}],
    ["/a/text", "", {"bid": "193.21"}],
]


@pytest.fixture(scope="module")
def server() -> Iterator[Sidecar]:
    """One for all tests of this module; each has subjects of its own."""
    with Sidecar(mode="none") as running:
        yield running


def _record(server: Sidecar, path: Path, pattern: str, *words: str) -> list[Any]:
    asked = ["record", pattern, "--url", server.client_url, "--output", str(path), "--history", "100", "--quiet"]
    assert main([*asked, "--for", "1s", *words]) == 0
    return messages(path)


@pytest.mark.parametrize("via", ["publisher_url", "client_url"])
def test_what_was_recorded_comes_back_as_it_was(
    server: Sidecar, tmp_path: Path, capsys: pytest.CaptureFixture[str], via: str
) -> None:
    """Contents, fields, bytes, quality, whether it is kept, whom to answer: all but the times, by both ports.

    A client's publication has no ``as_of`` (protocol.md 3.4), and always a closure, so that it is answered.
    """
    with Publisher(server.publisher_url) as publisher:
        publisher.send_batch([[f"/{via}{row[0]}", *row[1:]] for row in ROWS])
    recorded = _record(server, tmp_path / "1.jsonl.gz", f"/{via}/**")

    words = ["--url", getattr(server, via), "--prefix", "/again", "--speed", "max", "--json", "--quiet"]
    assert main(["replay", str(tmp_path / "1.jsonl.gz"), *words]) == 0
    result = json.loads(capsys.readouterr().out)
    again = _record(server, tmp_path / "2.jsonl", f"/again/{via}/**")

    assert len(recorded) == len(ROWS)
    assert (result["sent"], result["acknowledged"], result["refused"]) == (len(ROWS), len(ROWS), 0)
    if via == "client_url":
        closures = {line.subject: line.closure for line in recorded}
        for line in recorded:
            line.as_of = None
        for line in again:
            assert line.closure
            line.closure = closures[line.subject.removeprefix("/again")] and line.closure

    def by_subject(lines: list[Any], prefix: str = "") -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for line in lines:
            found.setdefault(line.subject.removeprefix(prefix), []).append(said(line, prefix))
        return found

    assert by_subject(again, "/again") == by_subject(recorded)
    assert [line.seq for line in again if line.subject.endswith("/a/text")] == [1, 2]
    ending = read(tmp_path / "2.jsonl")[-1]
    assert (ending.messages, ending.why) == (len(ROWS), "for")  # type: ignore[union-attr]


@pytest.mark.parametrize("via", ["publisher_url", "client_url"])
def test_what_is_refused_is_said_with_its_reason(
    server: Sidecar, tmp_path: Path, capsys: pytest.CaptureFixture[str], via: str
) -> None:
    """The others are published, the status is 1."""
    lines = [message(0, "/__sys__/x"), message(1, "/r/good"), message(2, "/__sys__/y"), message(3, "/r/" + "x" * 600)]
    path = write(tmp_path / "a.jsonl", lines)

    assert main(["replay", str(path), "--url", getattr(server, via), "--json", "--quiet"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["sent"], result["acknowledged"], result["refused"]) == (4, 1, 3)
    (denied, count), (long, _) = result["reasons"].items()
    assert denied.startswith("denied: ") and count == 2
    assert "too long" in long


def test_each_option_of_a_replay_has_its_effect(
    server: Sidecar, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Silences cut, in both kinds of time; which messages; how often."""
    lines = [message(0, "/o/a", kind="snapshot"), message(50, "/o/b"), message(60_000, "/o/b"), message(61_000, "/p/c")]
    path = write(tmp_path / "a.jsonl", lines)

    def sent(*words: str) -> int:
        assert main(["replay", str(path), "--url", server.publisher_url, "--json", "--quiet", *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["acknowledged"] == found["sent"]
        assert found["seconds"] < 10
        return int(found["sent"])

    assert sent("--pause-max", "10ms") == sent("--pause-max", "10ms", "--by", "arrival") == 4
    assert sent("--speed", "max", "--no-snapshots") == 3
    assert sent("--speed", "max", "--subject", "/o/*") == 3
    assert sent("--speed", "max", "--from", "+1s", "--until", "+1min") == 0
    assert sent("--speed", "max", "--from", "+1min", "--until", "2027-01-15T08:01:01") == 1
    assert sent("--speed", "max", "--loop", "3") == 12


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "{tmp}/none"], "No such file"),
        (["replay", "{tmp}/none", "--url", "{port}"], "No such file"),
        (["replay", "{file}", "--url", "nowhere"], "no address of a publisher port"),
        (["replay", "{file}", "--url", "{port}", "--prefix", "replay"], "no leading slash"),
        (["replay", "-", "--url", "{port}", "--loop", "2"], "--loop needs files"),
        (["replay", "{file}", "--url", "{port}", "--token-file", "{tmp}/none"], "No such file"),
        (["replay", "{file}", "--url", "{ws}", "--ca", "{tmp}/none"], "No such file"),
        (["replay", "{file}", "--url", "127.0.0.1:1", "--retry", "10ms"], "nothing was acknowledged"),
        (["record", "/a/b", "--url", "{ws}", "--output", "{file}"], "is there already"),
        (["record", "/a/b", "--url", "{ws}", "--output", "{tmp}/none/x"], "No such file"),
        (["record", "/a/b", "--url", "{ws}", "--output", "/dev/full", "--for", "10s"], "No space left on device"),
        (["record", "/a", "--url", "{ws}", "--output", "{tmp}/x"], "only one segment"),
        (["record", "/a/b", "--url", "{ws}", "--output", "{tmp}/y", "--files", "2"], "--files counts"),
        (["record", "/a/b", "--url", "http://h", "--output", "{tmp}/z"], "ws://"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    server: Sidecar, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """With status 2."""
    path = write(tmp_path / "a.jsonl", [message()])
    places = {"tmp": tmp_path, "file": path, "port": server.publisher_url, "ws": server.client_url}

    assert main([word.format(**places) for word in words]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("fastpath.recording: ") and says in told
