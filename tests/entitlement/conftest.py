"""Users, groups and the state of the change log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from tests.support.entitlement.changes import changes


@pytest.fixture
def bob(db: None) -> Any:
    """A user whose password is "demo"."""
    return get_user_model().objects.create_user("bob", password="demo")


@pytest.fixture
def desk(db: None) -> Group:
    """A group without members."""
    return Group.objects.create(name="NYSE desk")


@pytest.fixture
def news(db: None) -> Callable[[], set[tuple[str, str]]]:
    """A function that answers what changed since it was called last, as (kind, key)."""
    return changes()
