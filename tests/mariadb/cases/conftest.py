"""What an earlier test has left to be noted is no concern of the next one."""

from __future__ import annotations

import pytest

from tests.support.databases import settle


@pytest.fixture(autouse=True)
def settled(transactional_db: None) -> None:
    """All that is written has its generation: a flush of the tables deletes notes, which are then noted anew."""
    settle()
