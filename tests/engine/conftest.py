"""Stores of staged rows, of both kinds or of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine.stores import Stores


@pytest.fixture(params=["memory", "files"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    return Stores(tmp_path / "staged" if request.param == "files" else None)


@pytest.fixture
def files(tmp_path: Path) -> Stores:
    return Stores(tmp_path / "staged")
