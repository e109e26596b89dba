"""From Django's command line every node is told to read its files anew, and what did not do is named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.support.sidecar import Sidecar


def test_all_nodes_are_told_and_what_is_wrong_is_named(settings: Any, tmp_path: Path) -> None:
    config, away = tmp_path / "fastpath.toml", str(tmp_path / "away.sock")
    config.write_text('origins = "https://app.example.com"\n')
    with Sidecar(config=config) as sidecar:
        settings.REALTIME = settings.REALTIME | {"CONTROL": [sidecar.control]}
        out = io.StringIO()
        call_command("realtime_reload", stdout=out)
        assert out.getvalue() == f"{sidecar.control}: reloaded\n"
        config.write_text("origins = 1\n")
        settings.REALTIME = settings.REALTIME | {"CONTROL": [away, sidecar.control]}
        with pytest.raises(CommandError) as error:
            call_command("realtime_reload")
        first, second = str(error.value).splitlines()
        assert first.startswith(f"{away}: ")
        assert second == f"{sidecar.control}: {config}: origins must be a text"
