"""Finds the primary and its replicas: what a majority of the Sentinels says, or one server by its address."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from .address import Address, Names, RedisAway, RedisConfig, shown
from .connection import AWAY, RedisLink, replicas_in, sections, texts

LOOK_SECONDS = 1.0
"""Seconds between looks at each Sentinel; what they announce is looked at at once."""

ANSWER_SECONDS = 1.0
"""Seconds until a server is asked again, over a new connection."""

PATIENCE_SECONDS = 0.2
"""Seconds that a Sentinel's answer is waited for when all are asked."""

STALE_SECONDS = 3.0
"""Seconds that a Sentinel's answer counts."""

RETRY_SECONDS = 0.1
"""Seconds between attempts to reach a Sentinel that is away."""

_CHANNELS = ("+switch-master", "+slave", "+sdown", "-sdown", "+odown", "-odown")
SILENT_MS = 2000
"""A replica to which a Sentinel has no connection counts as down when it has answered no ping for so long: a failover
ends all connections to the replica that it promotes, and the Sentinels have new ones within a tenth of a second."""

_NEVER_MS = 10**11
"""An ``info-refresh`` that was never is 0, or counts from 1970."""

log = logging.getLogger("fastpath.redis")


@dataclass(frozen=True, slots=True)
class SentinelView:
    """The answer of one Sentinel."""

    primary: Address
    healthy: bool
    """True if the Sentinel sees the primary well and starts no failover."""
    replicas: dict[Address, bool]
    """Each replica, and whether it is down."""
    down_after: float
    """Seconds of silence until it takes a server for down."""
    quorum: int
    others: int
    """Number of other Sentinels that this one knows."""
    time: float = 0.0
    """Time of the answer, on the loop's clock."""
    linked: frozenset[Address] = frozenset()
    """The replicas that have the primary's data or are about to."""
    unheard: frozenset[Address] = frozenset()
    """The replicas that have never answered it since it takes them for replicas: it would promote none of these."""


class Primary:
    """Knows where the primary is. ``primary`` and ``readable`` answer from what the Sentinels said within the last
    seconds, so they take no time; the Sentinels are asked each second, and at once when one of them announces a change.
    """

    def __init__(self, config: RedisConfig) -> None:
        self.config = config
        self.names = Names()
        self._loop = asyncio.get_running_loop()
        self._watched = [_Sentinel(config, address, self.names, self._looked) for address in config.sentinels]
        self._direct = None if config.name else RedisLink(config, config.hosts[0])
        self._direct_replicas: set[Address] = set()
        self._looking = asyncio.Lock()
        self._changed: list[Callable[[], None]] = []
        self._last: Address | None = None
        self._left: dict[Address, float] = {}  # when the primary changed from it to another

    @property
    def sentinels(self) -> int:
        """The number of Sentinels; 0 with an address of one Redis."""
        return len(self._watched)

    @property
    def views(self) -> list[SentinelView]:
        """The answers that the Sentinels gave lately, at most one each."""
        limit = self._loop.time() - STALE_SECONDS
        return [one.view for one in self._watched if one.view is not None and one.view.time > limit]

    async def start(self) -> None:
        """Begin to watch, and return as soon as a primary is known, or after a second."""
        for one in self._watched:
            one.start()
        end = self._loop.time() + 1
        while self._watched and self.named() is None and self._loop.time() < end:  # noqa: ASYNC110  (once, at the start)
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Watch no more."""
        for one in self._watched:
            await one.close()
        if self._direct is not None:
            await self._direct.end()
        self.names.close()

    def link(self, address: Address) -> RedisLink:
        """Return a connection of somebody's own to a server, which is reached by what the Sentinels write."""
        return RedisLink(self.config, address, written=self.names.written(address))

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` from now on whenever a majority names another primary than before."""
        self._changed.append(changed)

    def named(self) -> Address | None:
        """Return the primary that a majority of all Sentinels names, in what they said lately."""
        if self._direct is not None:
            return self._direct.address
        return majority((view.primary for view in self.views), self.sentinels)

    def left(self, address: Address) -> float:
        """Return how long ago a majority has switched from this primary to the one it names now; infinity when it has
        not."""
        return self._loop.time() - self._left[address] if address in self._left else inf

    async def primary(self) -> Address:
        """Return the address of the primary; raises RedisAway when there is none."""
        named = self.named()
        if named is None:
            self.look()
            why = "; ".join(sorted({one.fault for one in self._watched if one.fault}))
            raise RedisAway(
                f"{len(self.views)} of {self.sentinels} Sentinels answer, and no majority names a primary"
                + (f" ({why})" if why else "")
            )
        return named

    async def replicas(self) -> set[Address]:
        """Return every replica that any of the Sentinels knows, down or not; without Sentinels those that the server
        names as connected. Raise one of ``AWAY``."""
        if self._direct is None:
            primary = self.named()
            views = [view for view in self.views if view.primary == primary]
            return {address for view in views for address in view.replicas}
        async with self._looking:
            info = await self._direct.call("INFO", "replication", seconds=ANSWER_SECONDS)
        self._direct_replicas = set(await self.connected(info))
        return self._direct_replicas

    async def connected(self, info: bytes) -> dict[Address, int]:
        """Return ``replicas_in`` of what a primary says in its INFO, as the Sentinels' answers are compared with it."""
        found = replicas_in(sections(info))
        await self.names.learn(found)
        return {self.names.note(address): offset for address, offset in found.items()}

    async def readable(self, avoid: Address | None = None) -> Address:
        """Return a server to read from: a replica that has the primary's data, else the primary; ``avoid`` only when
        there is no other. Raise one of ``AWAY``."""
        primary = await self.primary()
        if self._direct is None:
            views = [view for view in self.views if view.primary == primary]
            counts = Counter(address for view in views for address in view.linked)
            choice = [address for address, count in counts.items() if count > self.sentinels // 2]
        else:
            choice = list(await self.replicas())
        others = [address for address in choice if address != avoid]
        if others:
            return random.choice(others)  # noqa: S311  (spreads the readers)
        return primary if primary != avoid or not choice else choice[0]

    def look(self) -> None:
        """Ask the Sentinels soon: something has changed."""
        for one in self._watched:
            one.poke()

    async def ask(self) -> list[SentinelView]:
        """Return what the Sentinels say now; those that do not answer at once are left out."""
        answers = await asyncio.gather(*(one.asked() for one in self._watched))
        return [view for view in answers if view is not None]

    def _looked(self) -> None:
        named = self.named()
        if named is not None and named != self._last:
            if self._last is not None:
                self._left[self._last] = self._loop.time()
            self._left.pop(named, None)
            first, self._last = self._last is None, named
            log.info("the primary is %s", shown(named))
            for changed in () if first else self._changed:
                changed()


class _Sentinel:
    """Watches one Sentinel, over two connections: one to ask, one to listen."""

    def __init__(self, config: RedisConfig, address: Address, names: Names, looked: Callable[[], None]) -> None:
        self.view: SentinelView | None = None
        self.fault = ""  # why there was no answer to the last question
        self._name = config.name
        self._names = names
        self._asks = RedisLink(config, address, sentinel=True)
        self._hears = RedisLink(config, address, sentinel=True)
        self._looked = looked
        self._poked = asyncio.Event()
        self._asking: asyncio.Task[SentinelView | None] | None = None
        self._asked_at = 0.0
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._look()), loop.create_task(self._listen())]

    async def close(self) -> None:
        self._closing = True
        for task in (*self._tasks, *filter(None, [self._asking])):
            while not task.done():  # a cancellation can get lost in the library
                task.cancel()
                await asyncio.wait([task], timeout=0.2)
        await self._asks.end()
        await self._hears.end()

    def poke(self) -> None:
        self._poked.set()

    async def asked(self) -> SentinelView | None:
        """Return what the Sentinel says now; None without an answer.

        A question without an answer for ``PATIENCE_SECONDS`` is none at once, so that a Sentinel that hangs holds
        nobody up.
        """
        loop = asyncio.get_running_loop()
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask())
            self._asked_at = loop.time()
        await asyncio.wait([self._asking], timeout=max(0.0, self._asked_at + PATIENCE_SECONDS - loop.time()))
        return self._asking.result() if self._asking.done() else None

    async def _ask(self) -> SentinelView | None:
        try:
            master, replicas = await self._asks.ask(
                ("SENTINEL", "MASTER", self._name),
                ("SENTINEL", "REPLICAS", self._name),
                seconds=ANSWER_SECONDS,
            )
            await self._names.learn(hosts_in(master, replicas))
            view = read_view(master, replicas, asyncio.get_running_loop().time(), self._names.note, self._names.one)
        except (*AWAY, ValueError, KeyError, TypeError) as error:
            self.fault = f"{shown(self._asks.address)}: {error}"
            return None
        self.fault = ""
        self.view = view
        self._looked()
        return view

    async def _look(self) -> None:
        while not self._closing:
            self._poked.clear()
            found = await self.asked()
            try:
                async with asyncio.timeout(LOOK_SECONDS if found else RETRY_SECONDS):
                    await self._poked.wait()
                await asyncio.sleep(RETRY_SECONDS / 10)  # what is announced together is looked at once
            except TimeoutError:
                pass

    async def _listen(self) -> None:
        while not self._closing:
            try:
                await self._hears.ask(("SUBSCRIBE", *_CHANNELS), seconds=ANSWER_SECONDS)
                self._poked.set()
                while not self._closing:
                    await self._hears.read()
                    self._poked.set()
            except AWAY:
                await self._hears.close()
                await asyncio.sleep(LOOK_SECONDS)


def majority(named: Iterable[Address], voters: int) -> Address | None:
    """Return whom more than half of all voters name."""
    for address, count in Counter(named).most_common(1):
        if count > voters // 2:
            return address
    return None


def hosts_in(master: object, replicas: object) -> list[Address]:
    """Return every address in a Sentinel's answers to MASTER and REPLICAS; raise as ``read_view`` does."""
    if not isinstance(master, list) or not isinstance(replicas, list):
        raise ValueError(str(master))
    found = []
    for row in map(texts, (master, *replicas)):
        found.append((row["ip"], int(row["port"])))
        if row.get("master-host", "?") != "?":
            found.append((row["master-host"], int(row["master-port"] or 0)))
    return found


def _as_is(address: Address) -> Address:
    return address


def read_view(
    master: object,
    replicas: object,
    now: float,
    note: Callable[[Address], Address] = _as_is,
    one_of: Callable[[Address], Address] = _as_is,
) -> SentinelView:
    """Read a Sentinel's answers to MASTER and REPLICAS; raise ValueError, KeyError or TypeError for what is none.

    ``note`` gives each server that the Sentinel watches in the one spelling of all, ``one_of`` those that others name.
    """
    if not isinstance(master, list) or not isinstance(replicas, list):
        raise ValueError(str(master))
    one = texts(master)
    flags = one["flags"].split(",")
    known: dict[Address, bool] = {}
    linked, unheard = [], []
    primary = note((one["ip"], int(one["port"])))
    for row in replicas:
        replica = texts(row)
        address = note((replica["ip"], int(replica["port"])))
        theirs = replica["flags"].split(",")
        disconnected = "disconnected" in theirs
        known[address] = "s_down" in theirs or (disconnected and int(replica["last-ok-ping-reply"]) > SILENT_MS)
        follows = one_of((replica["master-host"], int(replica["master-port"] or 0)))
        if theirs == ["slave"] and replica["master-link-status"] == "ok" and follows == primary:
            linked.append(address)
        if not 0 < int(replica["info-refresh"]) < _NEVER_MS and replica["master-host"] == "?":
            unheard.append(address)
    return SentinelView(
        primary,
        flags == ["master"],
        known,
        int(one["down-after-milliseconds"]) / 1000,
        int(one["quorum"]),
        int(one["num-other-sentinels"]),
        now,
        frozenset(linked),
        frozenset(unheard),
    )
