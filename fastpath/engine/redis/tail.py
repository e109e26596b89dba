"""Reads the logs of all groups over one connection, delivers what it reads, and mends what it finds broken."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from time import monotonic, time_ns

from redis.exceptions import RedisError

from ...core.broker.broker import Broker
from . import entries
from .address import Address, shown
from .entries import GROUPS, START, VOID, Entry, Place
from .pace import Pace
from .primary import Primary
from .reading import LogReader
from .state import (
    ANSWER_SECONDS,
    CommandLink,
    Heads,
    RedisDiffers,
    RedisLacks,
    begin,
    read_group,
    read_heads,
    resynchronise,
)

BLOCK_MS = 500
"""Milliseconds that a read waits for something new."""

LATE_MS = 200
"""An answer that comes so much later was held up."""

SLICE_SECONDS = 0.003
"""Seconds of work after which others get their turn."""

SLICE_ENTRIES = 500
"""Are delivered at once."""

COMPARE_SECONDS = 1.0
"""Seconds between looks at where the server's data set stands."""

BEHIND_SECONDS = 1.0
"""A replica that has less than was read already, or than was stored, is left after so long."""

AVOID_SECONDS = 5.0
"""A server that was left is not chosen for so long, if there is another."""

RETRY_SECONDS = 0.1
PROGRESS_SECONDS = 2.0

FAULTS = (RedisError, OSError, TimeoutError, RedisLacks, RedisDiffers, ValueError, IndexError)
"""Errors that end a connection: it, the server or its data is not as it must be."""

log = logging.getLogger("fastpath.redis")


class Tail:
    """Follows the logs, from one server after the other.

    ``end`` is called after each delivery, ``seen`` with group, epoch and number of what has been delivered, ``changed``
    when ``current`` or the newest epoch has changed. ``returning`` is asked before a return from ``all_void``.
    ``oldest`` tells the time, in ms since 1970, before which snapshots have expired.
    """

    def __init__(
        self,
        broker: Broker,
        primary: Primary,
        prefix: str,
        *,
        end: Callable[[], None],
        seen: Callable[[int, int, int], None],
        changed: Callable[[], None],
        returning: Callable[[], bool],
        oldest: Callable[[], int],
        delivering: Callable[[int], None] | None = None,
    ) -> None:
        self._broker = broker
        self._primary = primary
        self._prefix = prefix
        self._end, self._seen, self._changed = end, seen, changed
        self._returning, self._oldest = returning, oldest
        self._keys = [entries.log_key(prefix, group).encode() for group in range(GROUPS)]
        self._group_of_key = {key: group for group, key in enumerate(self._keys)}
        self.reading = LogReader(broker, delivering)
        self._pace = Pace()
        self.joined = asyncio.Event()
        """Set when this node has everything that Redis holds, for the first time."""
        self.current = False
        """True once everything that the server at hand had when it was reached has been read."""
        self.all_void = False
        """Messages are numbered elsewhere than in Redis."""
        self.answered_at = monotonic()
        self._is_more = False  # the last answer brought as much as was asked for
        self.reason = "it has not been reached yet"
        self.address: Address | None = None
        self.lag_ms = 0
        self.mended = 0
        self.stored: dict[int, tuple[Place, float]] = {}
        self._target: list[Place] | None = None
        self._compared_at = self._behind_at = self._turn_at = 0.0
        self._avoided: tuple[Address, float] | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, and never give up."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the connection."""
        self._closing = True
        while self._task is not None and not self._task.done():
            self._task.cancel()  # it can be lost inside redis-py
            await asyncio.wait((self._task,), timeout=0.2)

    def unheard(self) -> bool:
        """Return whether there may be entries that were to be read by now and were not (Engine.unheard)."""
        late = monotonic() - self.answered_at > (BLOCK_MS + LATE_MS) / 1000
        return not self.all_void and (not self.current or self._is_more or late)

    def leave_out(self) -> None:
        """Deliver nothing more, as messages are numbered elsewhere from now on; once ``returning`` says that this is
        over every subject is brought to where Redis has it."""
        self.all_void = True
        if not self.joined.is_set():
            self.reading.complete()
            self.joined.set()

    def expect(self, epoch: int, stored: dict[int, int]) -> None:
        """Expect entries that the writer has stored: a server that does not bring them in time is left."""
        deadline = monotonic() + BEHIND_SECONDS
        for group, number in stored.items():
            if (self.reading.places[group] or START) < (epoch, number):
                self.stored.setdefault(group, ((epoch, number), deadline))

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self._follow()
            except FAULTS as error:
                self._lost(error)
            except Exception as error:  # or nothing would be delivered any more
                log.exception("reading from Redis failed for no known reason")
                self._lost(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _lost(self, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        if self.current or reason != self.reason:
            log.warning("reading from Redis %s: %s", _shown(self.address), reason)
        if isinstance(error, RedisDiffers):
            log.critical("Redis cannot be used: %s", reason)
        self.reason = reason
        if self.address is not None:
            self._avoided = (self.address, monotonic() + AVOID_SECONDS)
        self.address = self._target = None
        self.stored.clear()
        self._set_current(False)

    async def _follow(self) -> None:
        """Read from one server until it fails, or is behind."""
        avoid = self._avoided[0] if self._avoided and monotonic() < self._avoided[1] else None
        address = await self._primary.readable(avoid)
        self.address = address
        link = self._primary.link(address)
        try:
            await self.attach(link)
            log.info("reading from Redis %s, epoch %d", _shown(address), self.reading.epoch)
            while not self._closing:
                await self.step(link)
        finally:
            await link.close()

    async def attach(self, link: CommandLink) -> None:
        """Begin with a server; raises one of ``FAULTS``."""
        self._behind_at, self._target = 0.0, None
        self._pace.begin()
        self._set_current(False)
        if not self.joined.is_set():
            await self._join(link)
        await self._compare(link)

    async def step(self, link: CommandLink) -> None:
        """Read once, and look now and then where the server stands; raises one of ``FAULTS``."""
        await self._read(link)
        if monotonic() - self._compared_at > COMPARE_SECONDS or self.all_void:
            await self._compare(link)

    async def _read(self, link: CommandLink) -> None:
        """Read all logs once, or some in turn where all would be too much."""
        answer = await self._ask(link)
        if self.all_void:
            return
        rows: list[Entry] = []  # of several groups, to be delivered at once
        ends: list[tuple[int, Place, bytes]] = []
        for group, of_group in answer:
            end = self.reading.end(group, of_group)
            if end is not None and (not ends or end[0] == ends[0][1][0]):
                rows += of_group
                ends.append((group, end, of_group[-1][0]))
            else:
                await self._take(link, group, of_group)
            if len(rows) >= SLICE_ENTRIES:
                await self._deliver(rows, ends)
                rows, ends = [], []
        if rows:
            await self._deliver(rows, ends)
        if answer:
            self._end()
        if self._target is not None and not self.current and self.reading.reached(self._target):
            self._set_current(True)

    async def _ask(self, link: CommandLink) -> list[tuple[int, list[Entry]]]:
        """Return what is next in the logs, by group."""
        groups, count = self._pace.next()
        block = ("BLOCK", BLOCK_MS) if len(groups) == GROUPS else ()  # the others do not wait for these
        keys, ids = [self._keys[group] for group in groups], [self.reading.ids[group] for group in groups]
        try:
            answer = await link.call("XREAD", "COUNT", count, *block, "STREAMS", *keys, *ids, seconds=ANSWER_SECONDS)
        except FAULTS:
            self._pace.failed()
            raise
        self.answered_at = self._turn_at = monotonic()
        found = {self._group_of_key[key]: rows for key, rows in answer or ()}
        self._is_more = len(groups) < GROUPS or any(len(rows) >= count for rows in found.values())
        for group in groups:
            self._pace.read(group, found.get(group, ()))
        return list(found.items())

    async def _deliver(self, rows: list[Entry], ends: list[tuple[int, Place, bytes]]) -> None:
        """Deliver entries that follow on, as is usual."""
        reading = self.reading
        reading.deliver(rows, ends[0][1][0])
        for group, place, last in ends:
            reading.places[group], reading.ids[group] = place, last
            self._has_seen(group, place)
        await self._turn(rows[-1])

    async def _take(self, link: CommandLink, group: int, rows: Sequence[Entry]) -> None:
        """Deliver what was read of one group, whatever it is."""
        reading = self.reading
        epoch = reading.epoch
        while rows:
            count, fault = reading.take(group, rows)
            if count:
                self._has_seen(group, entries.parse_place(rows[count - 1][0]))
            if fault:
                row = rows[count]
                at, number = entries.parse_place(row[0])
                log.warning("group %d of the log: entries before %d-%d are %s", group, at, number, fault)
                before = entries.before(row[1]) if fault == VOID else None
                await self._mend(link, group, at, before, unknown=at > reading.epoch)
            else:
                await self._turn(rows[-1])
            rows = rows[count:]
        if reading.epoch != epoch:
            self._compared_at = 0.0  # in other groups nothing may come that would tell of what is void there
            self._changed()

    def _has_seen(self, group: int, place: Place) -> None:
        self._seen(group, *place)
        if self.stored and group in self.stored and self.stored[group][0] <= place:
            del self.stored[group]

    async def _turn(self, row: Entry) -> None:
        """Let others have their turn after a slice."""
        self.lag_ms = max(0, time_ns() // 1_000_000 - int(row[1][5]))
        if self.reading.unreadable:
            log.error("%d entries of the log cannot be read and are left out", self.reading.unreadable)
            self.reading.unreadable = 0
        if monotonic() - self._turn_at > SLICE_SECONDS:
            self._end()
            await asyncio.sleep(0)
            self._turn_at = monotonic()

    async def _compare(self, link: CommandLink) -> None:
        """Look at where the server stands: what is void is found here where no new entry tells of it."""
        reading = self.reading
        heads = await read_heads(link, self._prefix)
        self.answered_at = self._compared_at = monotonic()
        self._check_behind(heads)
        if heads.epoch < reading.epoch:
            self._target = None  # its data is gone, or older than what we know: the next script raises the epoch
            self._compared_at -= COMPARE_SECONDS * 0.8
            self.reason = "its data is older than what was read before"
            self._set_current(False)
            return
        if heads.epoch > reading.epoch:
            reading.epoch = heads.epoch
            self._changed()
        if self.all_void and not self._returning():
            raise RedisLacks("nothing can be stored yet")
        if self.all_void:
            for group, place in enumerate(heads.last):  # what lies before is in the snapshots: there is no cache
                await self._mend(link, group, heads.epoch, None, unknown=True)
                reading.stand(group, b"%d-%d" % place)
            self.all_void = False
        for group in reading.void(heads.epoch, heads.last):
            log.warning("group %d was read further than the log of epoch %d holds", group, heads.epoch)
            await self._mend(link, group, heads.epoch, heads.last[group], unknown=True)
            reading.stand(group, b"%d-%d" % heads.last[group])
        if self._target is None:
            self._target = heads.last
            if reading.reached(heads.last):
                self._set_current(True)

    def _check_behind(self, heads: Heads) -> None:
        """Raise RedisLacks for a replica that has been behind for too long."""
        moment = monotonic()
        late = any(moment > deadline and heads.last[group] < place for group, (place, deadline) in self.stored.items())
        if heads.primary or not (late or self.reading.behind(heads.last) or heads.epoch < self.reading.epoch):
            self._behind_at = 0.0
            if late:
                self.stored.clear()
            return
        self._behind_at = self._behind_at or moment
        if late or moment - self._behind_at > BEHIND_SECONDS:
            raise RedisLacks("it is a replica that does not keep up")

    async def _mend(self, link: CommandLink, group: int, epoch: int, before: Place | None, *, unknown: bool) -> None:
        """Bring the group's subjects to where Redis has them (redis_state.resynchronise)."""
        positions, snapshots = await read_group(link, self._prefix, group, self._oldest())
        newest = await link.call("XREVRANGE", self._keys[group], "+", "-", "COUNT", 1, seconds=ANSWER_SECONDS)
        head = entries.parse_place(newest[0][0]) if newest else START
        restarted = await resynchronise(self._broker, group, epoch, positions, snapshots, before, unknown=unknown)
        self.reading.settle(group, head)
        self.mended += 1
        self.answered_at = monotonic()
        self._end()
        log.info("group %d: %d subjects of %d stand elsewhere", group, restarted, len(positions))

    async def _join(self, link: CommandLink) -> None:
        """Read everything, for the first time; nobody is served meanwhile."""
        gc.disable()  # it would look at all that comes again and again; Runtime.start sets it right
        try:
            await self._read_all(link)
        finally:
            gc.enable()
        self.joined.set()

    async def _read_all(self, link: CommandLink) -> None:
        began = told = monotonic()
        reading = self.reading
        reading.restart()
        reading.epoch = (await read_heads(link, self._prefix)).epoch
        for group in range(GROUPS):
            positions, snapshots = await read_group(link, self._prefix, group, self._oldest())
            await begin(self._broker, positions, snapshots)
        heads = await read_heads(link, self._prefix)
        before = self._broker.counters.messages_in
        while not reading.reached(heads.last) and not self._closing:
            await self._read(link)
            if monotonic() - told > PROGRESS_SECONDS:
                told = monotonic()
                heads = await read_heads(link, self._prefix)  # should it have been emptied meanwhile
                log.info("joining: %d entries of the log read", self._broker.counters.messages_in - before)
        reading.complete()
        log.info(
            "joined: %d subjects, %d entries of the log, in %.2f s",
            len(self._broker.interest.topics),
            self._broker.counters.messages_in - before,
            monotonic() - began,
        )

    def _set_current(self, current: bool) -> None:
        if current:
            self.reason = ""
            self._pace.rested()
        if current != self.current:
            self.current = current
            self._changed()


def _shown(address: Address | None) -> str:
    return "(no server)" if address is None else shown(address)
