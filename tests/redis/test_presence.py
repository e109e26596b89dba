"""Presence and interest over two nodes on one Redis: one view, through the loss of a node and of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.edge.presence import PRESENCE, event, present
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@contextmanager
def node(redis: RedisServer, workers: int = 1) -> Iterator[Sidecar]:
    """A node that keeps presence in chat rooms."""
    settings = {
        "mode": "rules",
        "token_secret": SECRET,
        "presence": "/chat/**",
        "engine": redis.url,
        "drain_seconds": 1,
    }
    with Sidecar(workers=workers, **settings) as sidecar:
        load_rights(sidecar.control, rule(1, "everyone", "/chat/**"), rule(2, "everyone", "/prices/**"))
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


class Enter(ExitStack):
    """Clients, which are closed in the end."""

    def __call__(self, sidecar: Sidecar, user: str, *subjects: str) -> WireClient:
        """A client of that user, on these subjects."""
        client = self.enter_context(WireClient(sidecar))
        client.ask("connect", "connected", token=mint(user))
        if subjects:
            client.subscribe(*subjects)
        return client


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Lets clients in."""
    with Enter() as entered:
        yield entered


def is_stale(watcher: WireClient) -> bool:
    """Whether the view of the other nodes is old."""
    return bool(watcher.ask("presence", "present", subject="/chat/a").get("stale"))


def test_two_nodes_are_one_until_one_of_them_dies(enter: Enter) -> None:
    room = "/chat/a"
    with RedisServer() as redis, node(redis, 2) as one, node(redis) as other:
        watcher = enter(one, "watcher", PRESENCE + room)
        until(lambda: not is_stale(watcher))
        enter(other, "ann", room)
        assert event(watcher)[:2] == (room, "join")
        here = [enter(one, "ann", room) for _ in range(4)]
        until(lambda: present(watcher, room) == ({"ann": 5}, 0))

        feeds = [enter.enter_context(WirePublisher(each, mint("feed"))) for each in (one, other)]
        for feed in feeds:
            feed.packet("advertise", 1, ["/prices/*"])
            assert feed.next() == ["advertised", 1, [0]]
        enter(other, "ann", "/prices/a")
        enter(one, "bob", "/prices/b")
        for feed in feeds:
            wanted: list[str] = []
            while len(wanted) < 2:
                wanted += feed.next()[1]
            assert sorted(wanted) == ["/prices/a", "/prices/b"]

        with node(redis) as third:  # comes later, and goes in order
            late = enter(third, "late", PRESENCE + room)
            until(lambda: present(late, room) == ({"ann": 5}, 0))
            until(lambda: not is_stale(late))
            guest = enter(third, "guest", room)
            assert event(watcher) == (room, "join", {"user": "guest", "connections": "1"})
            assert event(late)[2]["user"] == "guest", "ann was there before"
            guest.sock.close()
            again = enter(other, "guest", room)
            until(lambda: present(watcher, room)[0].get("guest") == 1)
            again.sock.close()
        assert event(watcher) == (room, "leave", {"user": "guest", "connections": "0"}), "once"
        for each in here:
            each.sock.close()
        until(lambda: present(watcher, room) == ({"ann": 1}, 0))

        other.kill()
        for peer in (watcher, feeds[0]):
            peer.sock.settimeout(2 * PATIENCE_SECONDS)
        assert event(watcher) == (room, "leave", {"user": "ann", "connections": "0"})
        assert feeds[0].next() == ["interest", ["/prices/a"], False]
        assert present(watcher, room) == ({}, 0)


def test_without_redis_a_node_knows_its_own_and_says_so(enter: Enter) -> None:
    room = "/chat/a"
    with RedisServer() as redis, node(redis) as one, node(redis) as other:
        watcher = enter(one, "watcher", PRESENCE + room)
        until(lambda: not is_stale(watcher))
        ann = enter(other, "ann", room)
        assert event(watcher)[2]["user"] == "ann"
        redis.kill()
        until(lambda: is_stale(watcher))
        bob = enter(one, "bob", room)
        assert event(watcher) == (room, "join", {"user": "bob", "connections": "1"})
        assert present(watcher, room)[0] == {"ann": 1, "bob": 1}, "what was known stays"
        ann.sock.close()
        enter(other, "carl", room)
        redis.start()
        until(lambda: not is_stale(watcher))
        assert event(watcher) == (room, "join", {"user": "carl", "connections": "1"}), "what was missed is learnt"
        assert event(watcher) == (room, "leave", {"user": "ann", "connections": "0"})
        until(lambda: present(watcher, room) == ({"bob": 1, "carl": 1}, 0))
        other_watcher = enter(other, "watcher")
        until(lambda: present(other_watcher, room) == ({"bob": 1, "carl": 1}, 0))
        bob.sock.close()
