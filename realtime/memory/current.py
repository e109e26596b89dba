"""The node in memory of this process, and its clients with the rights that the project's database gives them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections, router

from entitlement import conf as entitlement_conf
from entitlement import keys, tokens
from entitlement.following import compiler
from entitlement.following.numbering import number_now
from entitlement.models import Generation
from realtime.conf import conf
from realtime.memory.client import MemoryClient, Surroundings
from realtime.memory.node import MemoryNode

CLIENTS_MAX = 10_000


class Site:
    """A node, its clients and its clock; the rights are read again whenever the database's have changed."""

    def __init__(self) -> None:
        self.node = MemoryNode(keys.verification_keys(), conf.message_bytes_max, int(time.time() * 1000))
        self.epoch = self.node.epoch
        self._clients: list[MemoryClient] = []

    def publish(self, wire: Sequence[list[Any]]) -> list[Any]:
        """Publish rows as Django does, and let every client read what follows (node.py)."""
        with self.node.lock:
            if self._clients:
                self._follow_in_sync_code()
            results = self.node.publish(wire)
            self.settle()
            return results

    def client(self, user: Any = None, arriving: Callable[[], None] = lambda: None) -> MemoryClient:
        """Return a connected client of a user of the project; None: of nobody. Raise MintError for one who is not
        active.

        ``arriving`` is called ahead of whatever is done with the client: what is on its way is to arrive.
        """

        def token() -> str:
            """Valid from the node's time on, which may be ahead of the machine's."""
            ahead = max(0, self.node.now // 1000 - int(time.time()))
            seconds = min(entitlement_conf.token_seconds() + ahead, entitlement_conf.token_seconds_max())
            return tokens.mint(user, seconds=seconds)[0] if user is not None else ""

        name = user.get_username() if user is not None else ""
        with self.node.lock:
            if len(self._clients) >= CLIENTS_MAX:
                raise ValueError(f"a test has at most {CLIENTS_MAX} clients")
            client = MemoryClient(self.node, name, Surroundings(token, arriving, self.follow, self.settle))
            client.connect()
            self._clients.append(client)
        return client

    def advance(self, seconds: float) -> None:
        """Let time pass: what is conflated comes, rules begin and end, tokens and caches expire."""
        with self.node.lock:
            self.follow()
            self.node.advance(seconds, self.settle)
            self.settle()

    def follow(self) -> None:
        """Take over the rights of the database, if they are others than the node has.

        Also those of a transaction that is open: a test case may be in one to its end, and numbers for itself.
        """
        while number_now(connections[router.db_for_write(Generation)]):
            pass
        at = compiler.position()
        if at is not None and at.generation != self.node.generation:
            self.node.take_rights(list(compiler.full_set(at.generation).chunks()), at.generation)
            self.settle()

    def settle(self) -> None:
        """Let all clients read, until nothing more follows."""
        busy = True
        while busy:
            busy = False
            for client in self._clients:
                busy = client.pump() or busy

    def _follow_in_sync_code(self) -> None:
        """Follow the rights, except in a loop: the database cannot be asked there, and they stay as they were read
        last."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.follow()


class _Current:
    """The site of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.site: Site | None = None


_own = _Current()


def current() -> Site:
    """Return the site of this process, which begins at its first use."""
    with _own.lock:
        if _own.site is None:
            _own.site = Site()
        return _own.site


def begin() -> Site:
    """Begin a new site, in which nothing has been published, in place of what there is."""
    with _own.lock:
        _own.site = Site()
        return _own.site


def end() -> None:
    """Forget it: who asks next has a new one."""
    with _own.lock:
        _own.site = None
