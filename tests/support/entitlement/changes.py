"""What changes of rights were noted for the agents."""

from __future__ import annotations

from collections.abc import Callable

from entitlement.models import Change, Generation
from tests.support.databases import settle


def changes() -> Callable[[], set[tuple[str, str]]]:
    """A function that answers what changed since it was called last, as (kind, key)."""
    settle()
    seen = Generation.objects.get().value

    def changed() -> set[tuple[str, str]]:
        nonlocal seen
        settle()
        value = Generation.objects.get().value
        found = set(Change.objects.filter(generation__gt=seen, generation__lte=value).values_list("kind", "key"))
        assert bool(found) == (value > seen), "a raised generation names what changed"
        seen = value
        return found

    return changed


def empty_log(**of_these: object) -> None:
    """Delete notes so that they do not come back, as the agent does with what nobody needs any more."""
    notes = Change.objects.filter(**of_these)
    notes.update(generation=Change.FORGOTTEN)
    Change.objects.filter(generation=Change.FORGOTTEN).delete()
