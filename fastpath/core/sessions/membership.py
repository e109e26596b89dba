"""A client in a group that shares more than bytes, out of it again, and gone (core/delivery/interest.py ``Cohort``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..broker.broker import Broker
from ..delivery import backlogs, slow_consumers
from ..delivery.audience import depends_on_name

if TYPE_CHECKING:
    from ..delivery.audience import Client

OWN_MAX = 100
"""Number of subjects beside its patterns up to which a client shares them: with more by name it follows these for
itself."""


def enroll(broker: Broker, client: Client) -> None:
    """Let the client's group care for its patterns, if nothing in which it follows them is its own.

    From here on it shares one dict of subscriptions with all others of the group, so that a subject which comes to be
    costs the group one change, however many clients are in it.
    """
    group, wilds = client.group, client.wilds
    if not wilds or client.waiting or client.lag is not None or not all(wild.usual for wild in wilds.values()):
        return
    feeds = 0 if group is None else len(group.feeds)
    if len(client.subscriptions) != feeds or (group is not None and group.cohort is not None):
        return  # of some it joins the feed when an interval ends
    if len(client.subscriptions) - len(wilds.owners) > OWN_MAX:
        return
    interest, patterns = broker.interest, broker.interest.patterns
    texts, own = tuple(wilds), frozenset(topic for topic in client.subscriptions if topic not in wilds.owners)
    grants, principal = broker.grants, client.principal
    named = depends_on_name(texts, own)
    name = texts, grants.rights_key(principal, named), own
    cohort = interest.cohort(name, grants.rights_proxy(principal, named))
    broker.move(client, [cohort], [])
    group = client.group
    assert group is not None
    if group.topics is None:
        group.topics, group.owners = client.subscriptions, wilds.owners
    else:
        client.subscriptions, wilds.owners = group.topics, group.owners
    for text in texts:
        patterns.discard(client, text)


def loosen(broker: Broker, client: Client) -> None:
    """Make the client's subscriptions its own again, as they are about to change by themselves."""
    group = client.group
    if group is None or group.cohort is None:
        return
    if client.wilds:
        for wild in client.wilds.values():
            broker.interest.patterns.add(client, wild)
        client.wilds.owners = dict(client.wilds.owners)
    client.subscriptions = dict(client.subscriptions)
    broker.move(client, [], [group.cohort])


def drop(broker: Broker, client: Client) -> None:
    """Forget the subscriptions of a client that is gone."""
    client.closed = True
    client.out = None
    broker.counters.subscriptions -= len(client.subscriptions)
    broker.counters.waiting -= len(client.waiting or ())
    # Nothing is settled: the others' pending bytes stay pending, and the client takes none of them.
    group, subscriptions = client.group, client.subscriptions
    client.subscriptions = {}
    backlogs.drop(client)
    if group is not None:
        broker.interest.leave(client)
    if group is None or group.topics is None or not len(group):
        for feed in subscriptions.values():
            feed.joining.pop(client, None)
            broker.release(feed)
    if group is not None and group.cohort is not None:
        broker.interest.release(group.cohort)
    slow_consumers.drop(broker, client)
    for pattern in client.wilds or ():
        broker.interest.patterns.discard(client, pattern)
    client.waiting = client.wilds = None
