"""What content and fields may be, and what a subscriber reads."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from django.db import models
from django.utils.translation import gettext_lazy, override

from realtime import NotEncodable, PublishRefused, publish
from realtime.test import Kit

NOON = datetime.datetime(2026, 7, 1, 12, 0, 0, tzinfo=datetime.UTC)
NUMBER = uuid.UUID(int=7)


class Level(models.IntegerChoices):
    """As a model has it."""

    HIGH = 3


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend."""
    own = Kit()
    own.begin()
    yield own
    own.end()


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"price": Decimal("1.50"), "id": NUMBER, "at": NOON}, None),
        ([1, None, True, "ü"], '[1,null,true,"ü"]'),
        ((), "[]"),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({1: "key"}, '{"1":"key"}'),
        (Decimal("193.20"), "193.20"),
        (NUMBER, str(NUMBER)),
        (NOON, "2026-07-01T12:00:00Z"),
        (NOON.date(), "2026-07-01"),
        (datetime.timedelta(hours=1), "P0DT01H00M00S"),
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        (Level.HIGH, "3"),
    ],
)
def test_what_json_can_say_and_what_django_makes_a_text_of(kit: Kit, given: Any, sent: str | None) -> None:
    """In content and in fields alike."""
    publish("/orders/1", given, {"f": given})
    [message] = kit.published
    assert message.content == message.fields["f"]
    if sent is None:
        assert message.json() == {"price": "1.50", "id": str(NUMBER), "at": "2026-07-01T12:00:00Z"}
        assert message.json("f") == message.json()
    else:
        assert message.content == sent


def test_a_lazy_text_within_is_in_the_language_of_the_call(kit: Kit) -> None:
    with override("de"):
        publish("/orders/1", {"answer": gettext_lazy("Yes")})
    assert kit.published[0].json() == {"answer": "Ja"}


def deep() -> list[Any]:
    """Deeper than Python goes."""
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


def circle() -> list[Any]:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "None"),
        ({1, 2}, "a set, which has no text"),
        ({"a": [object()]}, "Object of type object is not JSON"),
        ({(1, 2): 3}, "keys must be str"),
        (float("inf"), "Out of range"),
        (datetime.time(12, tzinfo=datetime.UTC), "timezone-aware times"),
    ],
)
def test_what_cannot_be_encoded_has_an_error_of_its_own(kit: Kit, given: Any, why: str) -> None:
    """Which is a TypeError and a ValueError, too, and nothing is published."""
    with pytest.raises(NotEncodable, match=why) as caught:
        publish("/orders/1", given)
    assert (caught.value.code, caught.value.subject) == ("not_encodable", "/orders/1")
    assert isinstance(caught.value, PublishRefused) and isinstance(caught.value, TypeError)
    with pytest.raises(NotEncodable, match="the field 'f'"):
        publish("/orders/1", "x", {"f": given})
    assert kit.published == []


def test_a_circle_and_what_is_too_deep(kit: Kit) -> None:
    for given, why in ((circle(), "Circular"), (deep(), "too deep")):
        with pytest.raises(NotEncodable, match=why):
            publish("/orders/1", given)
    with pytest.raises(PublishRefused, match="lone surrogate"):
        publish("/orders/1", {"a": "\ud800"})


def test_what_is_json_is_for_the_reader_to_know(kit: Kit) -> None:
    """There is no mark on the wire."""
    publish("/orders/1", "no json")
    [message] = kit.published
    with pytest.raises(ValueError, match="Expecting"):
        message.json()
    with pytest.raises(KeyError):
        message.json("f")
