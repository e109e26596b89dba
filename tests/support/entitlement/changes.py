"""What changes of rights were noted for the agents."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.db.models import F

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
    settle()
    with transaction.atomic():
        before = Generation.objects.get().forgotten
        Generation.objects.update(forgotten=F("value"))
        Change.objects.filter(**of_these).update(generation=Change.FORGOTTEN)
        Change.objects.filter(generation=Change.FORGOTTEN).delete()
        Generation.objects.update(forgotten=before)


def age_log(**of_these: object) -> None:
    """Have notes be as old as can be: as they may not be altered, others come in their place."""
    settle()
    notes = list(Change.objects.filter(**of_these))
    with transaction.atomic():
        empty_log(**of_these)
        for note in notes:
            note.pk, note.time = None, 1
        Change.objects.bulk_create(notes)
