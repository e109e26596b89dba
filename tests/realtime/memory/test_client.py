"""Clients of the node in memory: what a user would get, and may do, as the project's rules are now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User

from entitlement.models import Rule
from entitlement.tokens import MintError
from fastpath.client.errors import Denied, Disconnected, TooLarge
from realtime import publish
from realtime.test import Kit

pytestmark = pytest.mark.django_db


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The memory backend, with the rules of the test's database."""
    own = Kit()
    own.begin()
    yield own
    own.end()


@pytest.fixture
def bob() -> User:
    """May read /stocks/**."""
    user = User.objects.create_user("bob")
    Rule.objects.create(user=user, pattern="/stocks/**")
    return user


def test_a_user_gets_what_the_rules_give_and_nothing_else(kit: Kit, bob: User) -> None:
    """A right that comes starts what waits for it, one that goes ends it: at the next call."""
    client = kit.subscriber(bob, "/stocks/IBM", "/orders/1")
    publish("/stocks/IBM", "1")
    publish("/orders/1", "secret")
    assert client.contents() == ["1"]
    assert (client.status("/stocks/IBM"), client.status("/orders/1")) == ("subscribed", "denied")
    rule = Rule.objects.create(user=bob, pattern="/orders/*")
    publish("/orders/1", "open")
    assert client.contents("/orders/1")[-1] == "open"
    assert client.status("/orders/1") == "granted" or client.may_read("/orders/1")
    rule.delete()
    publish("/orders/1", "secret again")
    assert "secret again" not in client.contents()
    assert client.status("/orders/1") == "revoked"
    assert (client.may_read("/orders/1"), client.may_read("/stocks/GE")) == (False, True)


def test_groups_superusers_and_nobody(kit: Kit, bob: User) -> None:
    group = Group.objects.create(name="desk")
    Rule.objects.create(group=group, pattern="/desk/**")
    root = User.objects.create_superuser("root")
    assert not kit.as_user(bob).may_read("/desk/1")
    bob.groups.add(group)
    assert kit.as_user(bob).may_read("/desk/1")
    assert kit.as_user(root).may_publish("/any/thing")
    nobody = kit.subscriber(None, "/desk/1")
    publish("/desk/1", "x")
    assert (nobody.user, nobody.messages, nobody.status("/desk/1")) == ("", [], "denied")


def test_publishing_as_a_user(kit: Kit, bob: User) -> None:
    """It reaches others, and is none of what the project published."""
    Rule.objects.create(user=bob, pattern="/chat/*", action="both")
    reader, writer = kit.subscriber(bob, "/chat/1"), kit.as_user(bob)
    assert writer.publish("/chat/1", "hi", {"from": "bob"}, reply_to="/chat/2").seq == 1
    [message] = reader.messages
    assert (message.content, message.fields, message.reply_to) == ("hi", {"from": "bob"}, "/chat/2")
    with pytest.raises(Denied, match="no rule allows it"):
        writer.publish("/stocks/IBM", "1")
    with pytest.raises(TooLarge):
        writer.publish("/chat/1", "x" * ((1 << 20) + 1))
    writer.disconnect()
    with pytest.raises(Disconnected):
        writer.publish("/chat/1", "x")
    assert kit.published == []


def test_what_was_missed_comes_when_it_is_back(kit: Kit, bob: User) -> None:
    client = kit.subscriber(bob, "/stocks/IBM")
    publish("/stocks/IBM", "1")
    client.disconnect()
    assert not client.connected
    publish("/stocks/IBM", "2")
    publish("/stocks/IBM", "3")
    assert client.contents() == ["1"]
    client.connect().connect()
    assert [(one.content, one.kind) for one in client.messages] == [
        ("1", "update"),
        ("2", "recovered"),
        ("3", "recovered"),
    ]
    assert client.status("/stocks/IBM") == "recovered"
    position = client.messages[0].epoch, client.messages[0].seq
    other = kit.as_user(bob).subscribe("/stocks/IBM", since={"/stocks/IBM": position})
    assert other.contents() == ["2", "3"]


def test_a_user_who_is_not_active_is_sent_away_and_gets_no_token(kit: Kit, bob: User) -> None:
    client = kit.subscriber(bob, "/stocks/IBM")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    publish("/stocks/IBM", "1")
    assert (client.connected, client.messages) == (False, [])
    assert client.statuses[-1].code == 4502
    with pytest.raises(MintError, match="not an active user"):
        client.connect()


def test_time_that_passes_makes_no_token_old_that_is_new(kit: Kit, bob: User) -> None:
    """A client that comes back has one of its node's time."""
    client = kit.as_user(bob)
    client.disconnect()
    kit.clock.advance(seconds=13 * 3600)
    assert client.connect().connected
