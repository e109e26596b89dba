"""Every target takes its seeds, and a minute of coverage-guided fuzzing finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import Finding, check, targets

TARGETS = targets()
SECONDS = 60 // len(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_begins_with_is_read(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)


@pytest.mark.parametrize(
    "name",
    ["frames", "deflate", "http", "asking", "commands", "tokens", "patterns", "wildcards", "proxies", "listeners"],
)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_whatever_comes_is_read_or_refused(name: str, data: st.DataObject) -> None:
    """Without coverage: a seed that something was done to."""
    target = TARGETS[name]
    seed = data.draw(st.sampled_from(target.seeds))
    at = data.draw(st.integers(0, len(seed)))
    end = data.draw(st.integers(at, len(seed)))
    target.read(seed[:at] + data.draw(st.binary(max_size=20) | st.sampled_from(target.words)) + seed[end:])


def test_a_finding_is_told() -> None:
    with pytest.raises(Finding, match="what it was"):
        check(False, "what it was")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_fuzzing_finds_nothing(tmp_path: Path) -> None:
    for name in TARGETS:
        result = fuzz(name, SECONDS, tmp_path / name, tmp_path / "found")
        log = tmp_path / "found" / f"{name}.log"
        assert not result["status"], log.read_text() if log.exists() else result
        executions = result["executions"]
        assert isinstance(executions, int)
        assert executions > 100, result
