"""`publish --recording`: publishers that are fed from a recording."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.bench.__main__ import main
from fastpath.client.control.client import Control
from fastpath.recording.__main__ import main as recording
from fastpath.recording.lines import Binary
from tests.support.recording.samples import message, messages, said, write
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests of this module."""
    with Sidecar(mode="none") as running:
        yield running


@pytest.mark.parametrize("via", ["publisher_url", "client_url"])
def test_a_recording_is_published_once_through_several_connections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sidecar: Sidecar, via: str
) -> None:
    """Each subject by one of them, so that it keeps its order; fields and bytes as they were."""
    lines = [message(n, f"/r/{n % 5}", f"{n:02d}", fields={"n": str(n)} if n % 2 else {}) for n in range(50)]
    lines.append(message(50, "/r/raw", retained=False, content=Binary(b"\x00\xff")))
    path = write(tmp_path / "a.jsonl", lines)
    words = ["--connections", "3", "--processes", "2", "--prefix", f"/{via}", "--speed", "5", "--json"]

    assert main(["publish", "--recording", str(path), "--url", getattr(sidecar, via), *words]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["published"] == 51
    assert found.get("acknowledged", 51) == 51
    assert found["duration_s"] < 10
    _recorded(sidecar, tmp_path / "b.jsonl", f"/{via}/**")
    came = messages(tmp_path / "b.jsonl")
    assert Counter(repr(said(line, f"/{via}")[:5]) for line in came) == Counter(repr(said(line)[:5]) for line in lines)
    for subject in {line.subject for line in lines}:
        contents = [line.content for line in came if line.subject == f"/{via}{subject}"]
        assert contents == [line.content for line in lines if line.subject == subject]


def _recorded(sidecar: Sidecar, path: Path, pattern: str) -> None:
    words = ["record", pattern, "--history", "100", "--for", "300ms", "--quiet", "--url", sidecar.client_url]
    assert recording([*words, "--output", str(path)]) == 0


def test_with_a_duration_it_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str], sidecar: Sidecar) -> None:
    """As fast as it is acknowledged, until the time is over; a process with nothing to publish waits for the others."""
    path = write(tmp_path / "a.jsonl", [message(n, "/r/s") for n in range(100)])
    words = ["--url", sidecar.publisher_url, "--speed", "max", "--duration", "0.5", "--json"]
    words += ["--connections", "2", "--processes", "2"]

    assert main(["publish", "--recording", str(path), *words]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["published"] > 200
    with Control(sidecar.control) as control:
        assert control.snapshot("/r/s")["message"]["seq"] == found["acknowledged"] == found["published"]


@pytest.mark.parametrize(("lines", "says"), [([], "has no messages"), (None, "No such file")])
def test_a_recording_that_cannot_be_played_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sidecar: Sidecar, lines: list[object] | None, says: str
) -> None:
    """With status 2."""
    path = tmp_path / "a.jsonl"
    if lines is not None:
        write(path, [])

    assert main(["publish", "--recording", str(path), "--url", sidecar.publisher_url]) == 2
    assert says in capsys.readouterr().err
