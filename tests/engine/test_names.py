"""Who starts a sidecar knows whether its engine may have a journal, and the registry knows no other."""

from __future__ import annotations

import pytest

from fastpath.engine import names, registry
from fastpath.listen_address import SettingsError
from fastpath.settings import load


@pytest.mark.parametrize("engine", ["memory", *(f"{name}h:1/n" for name in names.ENGINES if name.endswith("://"))])
def test_a_journal_is_kept_where_the_registry_lets_it_be(engine: str) -> None:
    given = {"FASTPATH_ENGINE": engine, "FASTPATH_JOURNAL": "interval", "FASTPATH_DATA": "/data"}
    try:
        registry.place_of(load({"FASTPATH_MODE": "none"} | given))
    except SettingsError:
        assert not names.keeps_journal(engine)
    else:
        assert names.keeps_journal(engine)


def test_the_default_has_one_and_what_is_not_known_has_none() -> None:
    assert names.keeps_journal("")
    assert not names.keeps_journal("later")
    assert load({"FASTPATH_MODE": "none"}).engine == names.DEFAULT
