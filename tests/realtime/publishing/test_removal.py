"""remove() and aremove(): a message as those of publish(), by every way that leads to one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

from entitlement.models import Rule
from fastpath.client.errors import Denied
from realtime import Position, Publication, PublishRefused, aremove, publish, publish_many, remove
from realtime.models import OutboxMessage
from realtime.nodes.control_sockets import control
from realtime.test import Kit
from tests.support.sidecar import Sidecar

SUBJECT = "/orders/42"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(sidecar: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """A sidecar without rights to ask for."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        yield sidecar


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend."""
    own = Kit()
    own.begin()
    yield own
    own.end()


def snapshot() -> dict[str, Any] | None:
    """What there is of the subject."""
    return control().snapshot(SUBJECT).get("message")


def in_many() -> Position:
    """With other messages of one call."""
    positions = publish_many([("/orders/1", "x"), Publication(SUBJECT, "", removed=True)])
    assert positions is not None
    return positions[1]


@pytest.mark.parametrize(
    "how",
    [lambda: remove(SUBJECT, closure="c"), lambda: asyncio.run(aremove(SUBJECT)), in_many],
    ids=["remove", "aremove", "publish_many"],
)
def test_the_snapshot_is_gone_and_what_comes_later_begins_with_nothing(node: Sidecar, how: Callable[[], Any]) -> None:
    first = publish(SUBJECT, "open", {"total": "7"})
    assert first is not None
    assert how() == (first.epoch, first.seq + 1)
    assert snapshot() is None
    publish(SUBJECT, "again")
    found = snapshot()
    assert found is not None
    assert (found["content"], found["fields"], found["seq"]) == ("again", {}, first.seq + 2)


def test_after_the_commit_and_in_the_order_of_the_calls(node: Sidecar) -> None:
    publish(SUBJECT, "open", {"total": "7"})
    with transaction.atomic():
        assert remove(SUBJECT) is None
        publish(SUBJECT, "again")
        assert snapshot() is not None
    found = snapshot()
    assert found is not None
    assert (found["content"], found["fields"]) == ("again", {})
    with transaction.atomic():
        remove(SUBJECT)
        transaction.set_rollback(True)
    assert snapshot() is not None


def test_as_a_row_of_the_outbox(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": "/nonexistent/c.sock"}
    with transaction.atomic():
        assert remove(SUBJECT, as_of={"version": 3}) is None
    (row,) = OutboxMessage.objects.all()
    assert msgspec.msgpack.decode(bytes(row.message)) == [SUBJECT, "", {}, {"removed": True, "as_of": {"version": 3}}]


def test_what_cannot_be_removed_is_refused_at_the_call(kit: Kit) -> None:
    for wrong in ("orders", "/orders", "/__sys__/jobs/x"):
        with pytest.raises(PublishRefused):
            remove(wrong)
    for more in ({"content": "x"}, {"content": "", "retained": False}):
        with pytest.raises(PublishRefused, match="a removal has no content"):
            publish_many([{"subject": SUBJECT, "removed": True} | more])

    async def view() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="await aremove"):
            remove(SUBJECT)

    asyncio.run(view())
    assert kit.published == []


def test_the_kit_tells_removals_from_all_else(kit: Kit) -> None:
    """Of what was published, and to who is subscribed."""
    ann = User.objects.create_user("ann")
    Rule.objects.create(user=ann, pattern="/orders/*", action="both")
    client = kit.subscriber(ann, SUBJECT)
    publish(SUBJECT, "open", {"total": "7"})
    with pytest.raises(AssertionError, match="/orders/42 was not removed; published were:\n  /orders/42 'open'"):
        kit.assert_removed(SUBJECT)
    remove(SUBJECT)
    assert [(one.content, one.removed) for one in client.messages] == [("open", False), ("", True)]
    assert kit.assert_removed(SUBJECT, times=1).seq == 2
    assert kit.assert_published(SUBJECT, times=1).content == "open"
    with pytest.raises(
        AssertionError, match=r"1 times instead of 2 removed; published were:\n.*\n  /orders/42 removed"
    ):
        kit.assert_removed(SUBJECT, times=2)
    assert client.remove(SUBJECT).seq == 3
    assert kit.subscriber(ann, SUBJECT).messages == []
    with pytest.raises(Denied):
        kit.as_user(User.objects.create_user("bob")).remove(SUBJECT)


def test_nowhere(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"BACKEND": "dummy"}
    assert remove(SUBJECT) == (0, 0)
