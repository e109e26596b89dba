"""Stores publications in Redis: one batch at a time, tried until it is safe, answered in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence

from redis.exceptions import ResponseError

from ....core.broker.admission import Done, Outcome, with_refusals
from ....core.protocol.messages import Message
from ....core.protocol.packets import Refusal
from ...order_fence import HELD, OrderFence
from ..address import Address, RedisAway, RedisConfig, shown
from ..checks import RedisRefused, check, connect
from ..connection import AWAY, RedisLink
from ..primary import Primary
from ..script import Known, ScriptFault, Stored, command, fault, late, no_fields, pack, read, settle
from .confirmation import Confirmation
from .deadline import BatchDeadline
from .publication_queue import HandedPublications, PublicationQueue, StoreBatch, Unread
from .recent import Recent

WAIT_MS = 500
"""Milliseconds that all replicas are waited for, before it is asked why some are missing."""

STORE_SECONDS = 1.0
"""Seconds that the script may take; a primary that takes longer is asked again over a new connection."""

LATE_SECONDS = 0.5
"""Seconds after the end of that wait in which a primary still executes the batch; then it refuses it."""

UNAVAILABLE_SECONDS = 5.0
"""Seconds that publications wait for a Redis that does not store safely; then their publishers are told."""

RETRY_SECONDS = 0.05
LOOK_SECONDS = 1.0

_BUSY = ("unavailable", "too much waits for Redis already: publish again later, under the same number")
_ENDS = ("unavailable", "the server stops: publish again elsewhere, under the same number")

log = logging.getLogger("fastpath.redis")


class RedisWriter:
    """Stores the publications of a node. With ``guaranteed`` a publication is acknowledged when it cannot get lost any
    more (replica_acks.py), else when the primary has it.

    ``epoch_known`` is the highest epoch that this node has seen, ``stored`` is told the epoch and the ends of logs when
    the script has run, ``on_state`` when acknowledgements stop, why, and when they go on. ``end`` is called when
    outcomes were told, unless that came of ``seen()``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: RedisConfig,
        primary: Primary,
        *,
        guaranteed: bool,
        snapshots: bool,
        prefix: str,
        log_messages: int,
        epoch_known: Callable[[], int],
        known: Known = no_fields,
        stored: Callable[[int, dict[int, int]], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self.on_state: Callable[[bool, str], None] | None = None
        self.batches = self.retries = 0
        self._loop = loop
        self._config = config
        self._primary = primary
        self._guaranteed = guaranteed
        self._snapshots = snapshots
        self._prefix = prefix
        self._log_messages = log_messages
        self._epoch_known = epoch_known
        self._known = known
        self._stored = stored
        self._name = f"node:{secrets.token_hex(8)}"  # whose numbers those publications get that have none
        self._numbered = 0
        self._epoch = 0
        self._link: RedisLink | None = None
        self._replicas: set[Address] = set()
        self._need = 1
        self._looked = 0.0
        self._confirmation = Confirmation(primary, prefix)
        self._recent = Recent(prefix, loop.time)
        self._deadline = BatchDeadline(loop.time)
        self._lost: deque[StoreBatch] = deque()  # acknowledged, and to be stored again
        self._queue = PublicationQueue(known)
        self._holds = OrderFence(loop.time)
        self._batch: StoreBatch | None = None
        self._unread = Unread(loop, epoch_known, end)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._checked = False
        self._reason: str | None = None  # why nothing is acknowledged; None when it is
        self._since = 0.0  # since when

    @property
    def connected(self) -> bool:
        """True while there is a connection to the primary."""
        return self._link is not None

    async def start(self) -> None:
        """Connect; raises RedisRefused when this Redis must not be used, and RedisAway when closed meanwhile."""
        while not self._checked:
            if self._closing:
                raise RedisAway("closed")
            try:
                await self._connect()
            except AWAY as error:
                self._stops(str(error))
                await self._drop()
                await asyncio.sleep(RETRY_SECONDS)
        self._task = self._loop.create_task(self._run())

    def submit(self, messages: Sequence[Message], done: Done | None) -> None:
        """Store accepted publications, with all others of this tick."""
        if self._closing:
            if done is not None:
                done([_ENDS] * len(messages))
            return
        refused: dict[int, Refusal] = {}
        if self._queue.full:
            refused = dict.fromkeys(range(len(messages)), _BUSY)
            self._holds.note(messages)
        elif self._holds:
            refused = self._holds.refused(messages, HELD)
        if refused:
            messages = [message for index, message in enumerate(messages) if index not in refused]
            done = done and with_refusals(done, refused)
        self._queue.add(HandedPublications(messages, done, self._loop.time()))
        self._wake.set()

    def seen(self, group: int, epoch: int, n: int) -> None:
        """Note that this node has read the group's log up to entry ``n`` of ``epoch``."""
        self._unread.seen(group, epoch, n)

    def withdraw(self) -> list[tuple[Sequence[Message], Done | None]]:
        """Return everything that has no outcome yet, in order; it is the caller's from now on."""
        self._unread.release(all_of_them=True)
        parts = [] if self._batch is None else [part[0] for part in self._batch.parts]
        handed = dict.fromkeys([*parts, *(one for one, _ in self._queue.take_all())])
        self._batch = None
        return [one.rest() for one in handed]

    async def close(self) -> None:
        """End; what is not stored yet is answered as unavailable."""
        self._closing = True
        self._wake.set()
        task = self._task
        while task is not None and not task.done():  # a cancellation can get lost in the library
            task.cancel()
            await asyncio.wait([task], timeout=0.2)
        self._refuse("the server stops")
        self._unread.close()
        if self._link is not None:
            await self._link.end()
        await self._confirmation.close()

    # The loop

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self._step()
            except AWAY as error:
                if self._batch is not None:
                    self._batch.uncertain = True
                self._stops(str(error) or type(error).__name__)
                await self._drop()
                self._primary.look()
                await asyncio.sleep(RETRY_SECONDS)
            except RedisRefused as error:
                self._stops(str(error))
                await self._give_up(str(error))
                await self._drop()
                await asyncio.sleep(LOOK_SECONDS)
            except Exception:
                log.exception("a fault of this program; what waits is answered as unavailable")
                await self._give_up("a fault of the server")
                await self._drop()
                await asyncio.sleep(LOOK_SECONDS)
            await self._expire()

    async def _step(self) -> None:
        if self._link is None:
            await self._connect()
        if self._lost:
            await self._store_again(self._lost[0])
            return
        if self._batch is None:
            if not self._queue:
                await self._idle()
                return
            self._batch = self._queue.take()
            if not self._packed(self._batch):
                return
        batch = self._batch
        if self._loop.time() - self._looked > LOOK_SECONDS:
            await self._look()
        stored = await self._store(batch)
        if stored is not None and batch is self._batch:
            self.batches += 1
            self._keep(batch, stored)
            self._settled(batch, settle(batch.messages, stored))
            self._goes_on()

    async def _store_again(self, batch: StoreBatch) -> None:
        if stored := await self._store(batch):
            self._lost.popleft()
            self._keep(batch, stored)
        else:
            await asyncio.sleep(RETRY_SECONDS)

    def _keep(self, batch: StoreBatch, stored: Stored) -> None:
        batch.epoch, batch.ends = stored.epoch, stored.ends
        if self._guaranteed:
            self._recent.add(batch)

    def _packed(self, batch: StoreBatch) -> bool:
        """Make it ready; False when there is nothing to store."""
        outcomes: list[Outcome] = []
        if batch.messages:
            try:
                batch.packed = pack(batch.messages, self._name, self._numbered + 1, self._snapshots, self._known)
                self._numbered += len(batch.messages)
                return True
            except (TypeError, ValueError, OverflowError) as error:  # what the ports let through should not get here
                log.exception("publications cannot be written down")
                outcomes = [("failed", f"cannot be stored: {error}")] * len(batch.messages)
        self._settled(batch, outcomes)
        return False

    async def _idle(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(LOOK_SECONDS if self._reason is None else RETRY_SECONDS * 4):
                await self._wake.wait()
        except TimeoutError:
            await self._look()
            if self._reason is not None:
                await self._test()

    async def _connect(self) -> None:
        link = await connect(self._primary)
        try:
            if not self._checked:
                await check(link, self._primary, guaranteed=self._guaranteed)
                self._checked = True
        except BaseException:
            await link.close()
            raise
        self._link = link
        self._deadline.forget()
        await self._look()
        await self._test()
        lost = await self._recent.lost(link, self._epoch)
        if lost:
            log.error("Redis came back without what it had acknowledged; %d batches are stored again", len(lost))
        self._lost += lost

    async def _test(self) -> None:
        """Run the script without messages: that raises a new primary's epoch, and shows whether a batch would pass."""
        if await self._store(StoreBatch([], [], 0, pack((), self._name, 0, False))) is not None:
            self._goes_on()

    async def _look(self) -> None:
        """Look whether the primary is still the primary, and which replicas there are."""
        assert self._link is not None
        address = await self._primary.primary()
        if address != self._link.address:
            raise RedisAway(f"the primary is {shown(address)} now")
        # A replica that has just come is not known to the Sentinels yet, but would be among those that a WAIT counts.
        info = await self._link.call("INFO", "replication", seconds=STORE_SECONDS)
        connected = await self._primary.connected(info)
        self._replicas = connected.keys() | await self._primary.replicas()
        away = self._replicas - connected.keys()
        if away and not self._confirmation.degraded:
            self._confirmation.short(away)
            self._need = max(1, len(connected))
        self._looked = self._loop.time()

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    # One batch

    async def _store(self, batch: StoreBatch) -> Stored | None:
        """Run the script; None when the batch is not safe yet, or was refused. Raises one of ``AWAY``."""
        link = self._link
        assert link is not None
        known = max(self._epoch, self._epoch_known())
        degraded = self._confirmation.degraded
        info = ("INFO", "replication")
        more: list[tuple[object, ...]] = []
        if self._guaranteed and degraded:
            more = [info, ("WAIT", self._need, WAIT_MS), info]
        elif self._guaranteed and self._needed:
            more = [("WAIT", self._needed, WAIT_MS)]
        seconds = STORE_SECONDS + (WAIT_MS / 1000 if more else 0)
        until = self._deadline.set(seconds + LATE_SECONDS)
        send = command(self._prefix, known, self._log_messages, batch.packed, until)
        answer, *rest = await link.ask(send, *more, seconds=seconds)
        if isinstance(answer, ResponseError):
            self._deadline.answered(late(answer))
            await self._faulty(batch, answer)
            return None
        for one in rest:
            if isinstance(one, ResponseError):
                raise one
        stored = read(answer)
        self._deadline.answered(stored.time)
        self._epoch = max(self._epoch, stored.epoch)
        if self._stored is not None:
            self._stored(stored.epoch, stored.ends)
        if not more or int(rest[len(rest) // 2]) >= self._needed:
            self._confirmation.complete()
            return stored
        batch.uncertain = True
        why = await self._objection(link, stored.epoch, rest if degraded else None)
        if not why:
            return stored
        self._stops(why)
        await self._again()
        return None

    @property
    def _needed(self) -> int:
        """Number of replicas that have to acknowledge without further questions.

        The Sentinels know of replicas because there are some, so with Sentinels the number is at least one.
        """
        return max(len(self._replicas), 1 if self._config.name else 0)

    async def _objection(self, link: RedisLink, epoch: int, rest: list[object] | None) -> str:
        """Return why what fewer than all replicas have must not be acknowledged; empty when it may."""
        replicas = self._replicas
        if rest is None:
            self._confirmation.short(replicas)
            self._need = max(1, len(replicas) - 1)
            return "not all replicas have acknowledged"
        written, _, waited = rest
        assert isinstance(written, bytes) and isinstance(waited, bytes)
        offsets = await self._primary.connected(waited)
        acknowledged, self._need = self._confirmation.noted(replicas, written, offsets)
        if not self._config.name:
            return "" if acknowledged >= replicas else "not all replicas that are connected have acknowledged"
        return await self._confirmation.objection(link.address, epoch, replicas, acknowledged)

    async def _faulty(self, batch: StoreBatch, error: ResponseError) -> None:
        """Act on a refusal of the script."""
        kind, why = fault(error)
        if kind is ScriptFault.CONNECT:
            raise RedisAway(why)
        if kind is ScriptFault.FOREIGN:
            raise RedisRefused(why)
        self._stops(why)
        if kind is ScriptFault.AGAIN:
            await self._again()
        elif batch is self._batch and batch.uncertain:
            await self._give_up(why)
        elif batch is self._batch:
            self._settled(batch, [("failed", why)] * len(batch.messages))

    async def _again(self) -> None:
        self.retries += 1
        await asyncio.sleep(RETRY_SECONDS)
        await self._look()

    # Outcomes

    def _settled(self, batch: StoreBatch, outcomes: list[Outcome]) -> None:
        self._batch = None
        self._unread.add(batch, outcomes)

    async def _expire(self) -> None:
        """Give up what waits for too long."""
        since = self._batch.since if self._batch is not None else self._queue.since
        if self._reason is not None and self._loop.time() > max(since, self._since) + UNAVAILABLE_SECONDS:
            await self._give_up(self._reason)

    async def _give_up(self, why: str) -> None:
        """Refuse everything that waits, as soon as nothing that was sent of it can be stored any more."""
        await asyncio.sleep(self._deadline.left)
        self._refuse(why)

    def _refuse(self, why: str) -> None:
        """Answer everything that waits: what comes behind a publication that is not stored must not overtake it."""
        refusal = ("unavailable", f"it may have been stored; publish it again, under the same number: {why}")
        batch = self._batch or StoreBatch([], [], self._loop.time())
        self._queue.empty(batch)
        self._holds.note(batch.messages)
        self._settled(batch, [refusal] * len(batch.messages))

    def _stops(self, why: str) -> None:
        if self._reason is None:
            log.warning("publications are not acknowledged: %s", why)
            self._since = self._loop.time()
            self._holds.away()
        if why != self._reason and self.on_state is not None:
            self.on_state(False, why)
        self._reason = why

    def _goes_on(self) -> None:
        if self._reason is None:
            return
        log.info("publications are acknowledged, after %.1f s", self._loop.time() - self._since)
        self._reason = None
        self._holds.back()
        if self.on_state is not None:
            self.on_state(True, "")
