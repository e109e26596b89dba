"""The registry: which engine the settings ask for, and what is said where there is none."""

from __future__ import annotations

import pytest

from fastpath.__main__ import main
from fastpath.engine import registry
from fastpath.listen_address import SettingsError
from fastpath.settings import load

NONE = {"FASTPATH_MODE": "none"}


@pytest.mark.parametrize(
    ("engine", "journal", "name"),
    [
        ("memory", "off", "MemoryEngine"),
        ("memory", "interval", "JournalEngine"),
        *((f"{scheme}://h:1/n", "off", "RedisEngine") for scheme in ("redis", "rediss", "redis+sentinel")),
    ],
)
def test_the_engine_that_is_asked_for(engine: str, journal: str, name: str) -> None:
    given = {"FASTPATH_ENGINE": engine, "FASTPATH_JOURNAL": journal, "FASTPATH_DATA": "/data"}
    assert registry.engine_class(load(NONE | given)).__name__ == name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"FASTPATH_ENGINE": "kafka://x"}, "FASTPATH_ENGINE: 'kafka://x' is none of memory, redis://, rediss://"),
        ({"FASTPATH_ENGINE": "memory://x"}, "FASTPATH_ENGINE: 'memory://x' is none of memory, redis://"),
        ({"FASTPATH_ENGINE": "redis"}, "FASTPATH_ENGINE: 'redis' is none of memory, redis://"),
        ({"FASTPATH_ENGINE": "redi://u:secret@h"}, "FASTPATH_ENGINE: 'redi://…@h'"),
        (
            {"FASTPATH_ENGINE": "redis://h", "FASTPATH_JOURNAL": "batch", "FASTPATH_DATA": "/data"},
            "FASTPATH_JOURNAL: with redis there is no journal: leave it off",
        ),
    ],
)
def test_an_engine_that_there_is_not(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as error:
        registry.place_of(load(NONE | given))
    assert words in str(error.value)


def test_a_package_that_is_not_installed() -> None:
    """What is asked for by a setting says what brings it; a module of our own that is missing is another fault."""
    registry.register("absent://", "no_such_package.engine:Engine")
    with pytest.raises(
        SettingsError, match=r"FASTPATH_ENGINE: absent needs the package no_such_package, .*pip install"
    ):
        registry.engine_class(load(NONE | {"FASTPATH_ENGINE": "absent://h"}))
    registry.register("absent://", "fastpath.engine.none:Engine")
    with pytest.raises(ModuleNotFoundError):
        registry.engine_class(load(NONE | {"FASTPATH_ENGINE": "absent://h"}))


@pytest.mark.parametrize("options", [["--check"], ["--print-settings"], []])
def test_the_program_says_so_whatever_it_was_to_do(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTPATH_MODE", "none")
    monkeypatch.setenv("FASTPATH_ENGINE", "kafka://x")
    assert main(options) == 2
    out, error = capsys.readouterr()
    assert (out, error.startswith("fastpath: FASTPATH_ENGINE: 'kafka://x' is none of")) == ("", True)
