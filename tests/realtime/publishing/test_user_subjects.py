"""publish_to_user(): a subject of the user's own, which nobody else reads, in the memory backend and on a sidecar."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from entitlement.models import Rule
from realtime import (
    PublishRefused,
    apublish,
    apublish_to_user,
    publish,
    publish_many,
    publish_to_user,
    user_subject,
)
from realtime.nodes.control_sockets import control
from realtime.test import Kit
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.django_db


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend, with the rules of the test's database."""
    own = Kit()
    own.begin()
    yield own
    own.end()


@pytest.mark.parametrize(
    ("user", "path", "subject"),
    [
        (User(username="ann"), {}, "/user/ann/messages"),
        ("ann", {}, "/user/ann/messages"),
        ("ann@example.com", {"path": "orders/7"}, "/user/ann@example.com/orders/7"),
        ("a/b", {"path": "/x"}, "/user/a%2Fb/x"),
    ],
)
def test_the_subject(user: Any, path: dict[str, str], subject: str) -> None:
    assert user_subject(user, **path) == subject


@pytest.mark.parametrize(
    ("user", "path", "error", "why"),
    [
        (AnonymousUser(), "x", PublishRefused, "nobody is signed in there"),
        ("", "x", PublishRefused, "only a user with a name has subjects"),
        (7, "x", TypeError, "a user is an object with get_username\\(\\), or a name, not int"),
        (None, "x", TypeError, "not NoneType"),
        ("ann", 7, TypeError, "path is a text"),
        ("ann", "", PublishRefused, "leave out the slash at the end"),
        ("ann", "a//b", PublishRefused, "there is nothing between two slashes"),
        ("x" * 600, "x", PublishRefused, "at most 512 bytes"),
    ],
)
def test_what_is_no_subject_of_a_user(kit: Kit, user: Any, path: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        publish_to_user(user, "1", path=path)
    kit.assert_not_published()


def test_the_user_alone_reads_it(kit: Kit) -> None:
    """Nobody needs a rule, and one about everything gives nobody the right; until the user is deactivated."""
    ann, bob = (User.objects.create_user(name) for name in ("ann", "bob"))
    Rule.objects.create(everyone=True, pattern="/**", action="both")
    subject = user_subject(ann)
    clients = [kit.subscriber(user, subject, "/user/**") for user in (ann, bob, None)]
    publish_to_user(ann, {"n": 1}, {"kind": "order"}, closure="c")
    asyncio.run(apublish_to_user(ann, "2"))
    kit.assert_published(subject, content={"n": 1}, fields={"kind": "order"})
    assert [len(client.contents()) for client in clients] == [2, 0, 0]
    assert clients[0].may_read(subject)
    assert not clients[1].may_read(subject)
    assert not clients[1].may_publish(subject)
    ann.is_active = False
    ann.save()
    publish_to_user(ann, "3")
    assert len(clients[0].contents()) == 2


@pytest.mark.django_db(transaction=True)
def test_after_the_commit(sidecar: Sidecar, settings: Any) -> None:
    """As publish() does."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        with transaction.atomic():
            assert publish_to_user("ann", "1", path="after") is None
            assert control().snapshot("/user/ann/after").get("message") is None
        assert control().snapshot("/user/ann/after")["message"]["content"] == "1"
        assert publish_to_user("ann", "2", path="after", retained=False) is not None


def test_what_replaces_leaves_no_field_of_before(kit: Kit) -> None:
    """With each function, also as a page's client would; and only where there is a snapshot to be changed."""
    ann = User.objects.create_user("ann")
    subject = user_subject(ann)
    Rule.objects.create(user=ann, pattern="/user/ann/*", action="both")
    for how in (
        lambda **options: publish_to_user(ann, "2", {"b": "2"}, **options),
        lambda **options: publish(subject, "2", {"b": "2"}, **options),
        lambda **options: publish_many([{"subject": subject, "content": "2", "fields": {"b": "2"}} | options]),
        lambda **options: asyncio.run(apublish_to_user(ann, "2", {"b": "2"}, **options)),
        lambda **options: asyncio.run(apublish(subject, "2", {"b": "2"}, **options)),
        lambda **options: kit.as_user(ann).publish(subject, "2", {"b": "2"}, **options),
    ):
        publish(subject, "1", {"a": "1"})
        how(replace=True)
        assert kit.subscriber(ann, subject).messages[0].fields == {"b": "2"}
    with pytest.raises(PublishRefused, match="only for what goes into the snapshot"):
        publish(subject, "3", replace=True, retained=False)
