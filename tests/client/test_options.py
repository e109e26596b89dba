"""The options of a client: typed, checked and documented."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from fastpath.client.options import TRANSPORTS, OptionNames, Options
from tests.support.sidecar import ROOT


def test_what_the_types_know_is_what_there_is() -> None:
    assert get_type_hints(OptionNames) == get_type_hints(Options)


def test_each_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/develop/python.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|")]
    documented = {
        name.strip(" `"): default.strip()
        for names, defaults in rows
        for name, default in zip(names.split(","), defaults.split(","), strict=False)
    }
    for option in fields(Options):
        shown = {1 << 20: "1 MiB", TRANSPORTS: "all three"}.get(option.default, f"{option.default}")
        assert documented[option.name] == shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"quick_seconds": -1},
        {"publish_seconds": "5"},
        {"down_after": None},
        {"transports": []},
        {"transports": "poll"},
        {"transports": ["carrier pigeon"]},
    ],
)
def test_they_are_checked(wrong: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)
