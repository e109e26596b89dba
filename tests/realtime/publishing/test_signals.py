"""Signals: of each message that was stored, or was not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from realtime import Position, apublish, publish, publish_failed, publish_many, published, remove
from realtime.test import Kit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def told() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The signals that were sent."""
    found: list[tuple[str, dict[str, Any]]] = []

    def stored(sender: Any, **values: Any) -> None:
        found.append(("published", values))

    async def failed(sender: Any, **values: Any) -> None:
        found.append(("failed", values))
        raise RuntimeError("a receiver's own")

    published.connect(stored)
    publish_failed.connect(failed)
    yield found
    published.disconnect(stored)
    publish_failed.disconnect(failed)


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend."""
    own = Kit()
    own.begin()
    yield own
    own.end()


def test_what_was_stored_is_told_after_the_commit(kit: Kit, told: list[Any]) -> None:
    position = publish("/signals/a", {"n": 1}, {"f": "x"})
    with transaction.atomic():
        publish_many([("/signals/a", "2"), ("/signals/a", "3")])
        assert len(told) == 1
    assert [name for name, _ in told] == ["published"] * 3
    values = told[0][1]
    values.pop("signal")
    content = {"content": '{"n":1}', "fields": {"f": "x"}, "removed": False}
    assert values == {"subject": "/signals/a", "position": position} | content
    remove("/signals/a")
    assert [told[-1][1][name] for name in ("subject", "content", "fields", "removed")] == ["/signals/a", "", {}, True]
    assert isinstance(position, Position)


async def test_in_asynchronous_code_too(kit: Kit, told: list[Any]) -> None:
    await apublish("/signals/a", "x")
    assert [name for name, _ in told] == ["published"]


def test_what_was_not_stored_is_told_and_a_receiver_breaks_nothing(
    settings: Any, tmp_path: Path, told: list[Any]
) -> None:
    """Each with its error; the call goes on as if nobody had listened."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    assert publish_many([("/signals/a", "1"), ("/signals/b", "2")], fail_silently=True) is None
    assert [(name, values["subject"]) for name, values in told] == [("failed", "/signals/a"), ("failed", "/signals/b")]
    assert "none.sock" in str(told[0][1]["error"])
