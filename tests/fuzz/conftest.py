"""A world of the fuzz targets silences the log of its process, which other tests share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    before = logging.root.manager.disable
    yield
    logging.disable(before)
