"""Drives the machine of the asynchronous client: sockets, time, tokens, the list of servers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import Close

from ..arguments import check_token
from ..asking import ask
from ..discovery import ServersSource, fetch_servers
from ..errors import ClientError, Disconnected, RequestTimeout, TooLarge, Unavailable, refusal, request_failure
from ..message import Position, Reply, Status
from ..options import Options, Transport
from ..requests.responding import RequestHandlers
from .answers import Answers, Statuses
from .events import (
    Answered,
    Arrived,
    InterestChange,
    ProbeTransport,
    Renew,
    RequestArrived,
    RequestOver,
    SubscriptionRefused,
)
from .machine import TOKEN_CODES, Machine, MachineEvent
from .outgoing import OutgoingPublication, Settled
from .streams import MessageStream
from .transports.carrier import Carrier, probe
from .transports.link import LinkEnd
from .transports.proxies import by_way_of, proxy_of

Token = str | Callable[[], str | Awaitable[str]] | None
Interest = Callable[[list[str], bool], None]

log = logging.getLogger("fastpath.client")

QUEUE_MESSAGES_MAX = 100_000
"""Messages that wait in one stream; beyond, the client stops reading and the server's slow-consumer rule applies."""


NO_ATTEMPT = "no attempt yet"

OPEN_SECONDS = 2
"""Seconds for a server to open, while there is another to try after it."""

LIST_SECONDS = 3
"""Seconds for the list of servers to come, while there are servers to try without it."""

LATE_REPLY_SECONDS = 2
"""Seconds that a client waits for a reply longer than the server, which tells that the time is over."""


class Driver:
    """The I/O of one client."""

    def __init__(
        self,
        machine: Machine,
        options: Options,
        token: Token,
        form: Form,
        tls: ssl.SSLContext | None,
        proxy: str | bool | None,
        source: ServersSource | None,
        statuses: Statuses,
    ) -> None:
        self.machine = machine
        self.options = options
        self.token = token
        self.statuses = statuses
        self.closing = False
        self.latency_ms: float | None = None
        self.on_interest: Interest | None = None
        self._form: Form = form
        self._tls = tls
        self._proxy = proxy
        self._source = source
        self._answers = Answers()
        self._waiting: dict[OutgoingPublication, asyncio.Future[Position]] = {}
        self.responding = RequestHandlers(self._reply)
        self._carrier = Carrier(machine.state.take_out, self._receive)
        self._connected = asyncio.Event()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._begin_at: float | None = None
        self._hurried = asyncio.Event()
        self._asking = False
        self._stalled = False
        self._heard_at = 0.0
        self._problem = NO_ATTEMPT
        self._last_token = ""
        self._run_task: asyncio.Task[None] | None = None
        self._step: asyncio.Task[Any] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # The life of the client.

    def start(self) -> None:
        """Begin to connect."""
        self._run_task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Close the connection and end everything."""
        self.closing = True
        for task in (self._run_task, self._renewal, self._probe):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._timer is not None:
            self._timer.cancel()
        if self.machine.failure is None:
            self._gone("the client was closed")
            self.happened(self.machine.close())
        self._finish(self.machine.failure)

    def pause(self) -> None:
        """Let go of the connection."""
        if self.machine.paused or self.closing or self.machine.failure is not None:
            return
        self._resumed.clear()
        self._carrier.drop()
        told = self.machine.pause()
        self._gone("the client was paused")
        self.happened(told)
        if self._step is not None:
            self._step.cancel()

    def resume(self) -> None:
        """Connect again after ``pause()``; without effect while the client is not paused."""
        if self.machine.paused and self.machine.resume():
            self._resumed.set()

    def reconnect(self) -> None:
        """Try now, unless it is connected or being tried; after ``pause()`` as ``resume()``."""
        if self.machine.paused:
            return self.resume()
        if self._begin_at is not None:
            self.machine.reconnect()
            self._begin_at = 0.0
            self._hurried.set()
        elif self._asking and self._step is not None:
            self._step.cancel()  # what the token or the list of servers hangs on may be gone
        return None

    def hurry(self) -> None:
        """Wait no longer for the next round, which the program needs now."""
        if self._begin_at is not None:
            self._begin_at = self.machine.hurry(time.monotonic(), self._begin_at)
            self._hurried.set()

    @property
    def connected(self) -> bool:
        """True while the client is connected to a server."""
        return self.machine.connected

    async def until_connected(self, seconds: float) -> None:
        """Wait for a connection; raises Unavailable, what ended the client, or ClientError if it is not open."""
        self.check_open()
        if not self._connected.is_set():
            self.hurry()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.001, seconds)):
                    await self._connected.wait()
        self.check_open()
        if not self._connected.is_set():
            raise Unavailable(f"no server answers at {', '.join(self.machine.servers.urls)} ({self._problem})")

    def check_open(self) -> None:
        """Raise what ended the client, or ClientError where the client is closed or not open yet."""
        if self.machine.failure is not None:
            raise self.machine.failure
        if self.closing:
            raise ClientError("the client is closed")
        if self._run_task is None:
            raise ClientError("the client is not open yet: use it inside `async with connect(…) as client:`")

    # Commands and answers.

    def wake(self) -> None:
        """Send what is to be sent, and look at the time when something is due."""
        self._carrier.wake.set()
        due = self.machine.due()
        if due is None or self.closing:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + due - time.monotonic()
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._tick)

    async def answer(self, number: int, end: float) -> wire.AnyAnswer:
        """Return the answer to a command, within time; raise Unavailable, Disconnected, or what an error says."""
        future = self._expect(number)
        try:
            async with asyncio.timeout(max(0.001, end - time.monotonic())):
                answer = await future
        except TimeoutError:
            raise Unavailable(f"{self.machine.url} gave no answer within {self.options.timeout_seconds:g} s") from None
        if isinstance(answer, wire.Error):
            raise refusal(answer.code, answer.reason)
        return answer

    def publish(self, publication: OutgoingPublication) -> asyncio.Future[Position]:
        """Queue a publication; the future is what becomes of it."""
        future: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        told = self.machine.publish(publication, time.monotonic())  # raises for what can never be sent
        self._waiting[publication] = future
        self.happened(told)
        self.hurry()
        return future

    async def command(self, send: Callable[[], int]) -> wire.AnyAnswer:
        """Send a command on the connection that stands, or on the next, and return the answer; raise as ``answer``
        does."""
        end = time.monotonic() + self.options.timeout_seconds
        await self.until_connected(self.options.timeout_seconds)
        return await self.answer(send(), end)

    async def request(self, send: Callable[[int], int], seconds: float) -> list[Reply]:
        """Return the replies to a request, or raise what became of it; ``send`` sends it, with the ms that it has."""
        end = time.monotonic() + seconds
        await self.until_connected(seconds)
        left = max(1, int((end - time.monotonic()) * 1000))
        future, parts = self._answers.collect(send(left))
        self._carrier.wake.set()
        try:
            async with asyncio.timeout(left / 1000 + LATE_REPLY_SECONDS):
                last = await future
        except TimeoutError:
            raise RequestTimeout("timeout", "no reply in time", _replies(parts)) from None
        if isinstance(last, wire.Error):
            raise refusal(last.code, last.reason)
        assert isinstance(last, wire.Response)
        if last.error:
            raise request_failure(last.error, last.reason, _replies(parts), own=last.own)
        return _replies([*parts, last])

    def _reply(self, reply: wire.GiveReply) -> None:
        if self.machine.connected:
            self.machine.state.reply(reply)
            self._carrier.wake.set()

    async def renew(self, token: str) -> None:
        """Renew the token of the live connection, and use this one from now on; raises BadToken."""
        await self.command(lambda: self.machine.state.renew(token))
        self._last_token = token
        if not callable(self.token):
            self.token = token
        self.statuses.tell(Status(name="renewed"))

    def _expect(self, number: int) -> asyncio.Future[wire.AnyAnswer]:
        self._carrier.wake.set()
        return self._answers.expect(number)

    # The connection.

    async def _run(self) -> None:
        try:
            while True:
                await self._resumed.wait()
                self._begin_at = None
                await self._interruptible(self._round())
                if self.machine.failure is not None:
                    raise self.machine.failure
                if not self.machine.paused and self.machine.wait:
                    await self._interruptible(self._pause())
        except Exception as error:
            if self.machine.failure is None:
                self._gone(str(error))
                self.happened(self.machine.fail(error))
            self._connected.set()  # whoever waits for a connection wakes up, and sees the failure
            self._finish(error)

    def _put_off(self) -> None:
        """Note when the next round is due: before the program is told of it, which may have it begin at once."""
        if self.machine.wait:
            self._begin_at = time.monotonic() + self.machine.wait

    async def _pause(self) -> None:
        """Wait until the next round is due, which may come to be sooner."""
        try:
            while self._begin_at is not None and (left := self._begin_at - time.monotonic()) > 0:
                self._hurried.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._hurried.wait()
        finally:
            self._begin_at = None

    async def _interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the work, or until ``pause()`` cancels it."""
        self._step = step = asyncio.create_task(work)
        try:
            await asyncio.wait({step})
        finally:
            self._step = None
            step.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await step

    async def _round(self) -> None:
        """Try servers until there is something to wait for."""
        machine = self.machine
        try:
            if not machine.url:
                self._problem = f"{NO_ATTEMPT}: the list of servers or the token is being asked for"
            self._asking = True
            await self._refresh()
            token = await self._current_token()
        except Exception as error:
            # They may come from a server that is away, like ours: no reason to give up.
            self._problem = f"no token or no list of servers could be had: {error!r}"
            told = machine.abandon(self._problem)
            self._put_off()
            self.happened(told)
            return
        finally:
            self._asking = False
        machine.begin(time.monotonic())
        while machine.wait is None:
            self._connected.clear()
            end = await self._connect(token)
            if machine.paused:
                return
            self._problem = f"{end.code} {end.reason}"
            if end.code in TOKEN_CODES and callable(self.token):
                self._last_token = ""  # it serves no more, not even where no new one can be had
            told = machine.ended(end.code, end.reason, time.monotonic(), end.how)
            self._put_off()
            self._gone(f"the connection was lost before the answer: {self._problem}", end.code == Close.TOO_BIG)
            self.happened(told)
            if machine.failure is not None:
                return

    async def _connect(self, token: str) -> LinkEnd:
        async def opened(form: Form) -> None:
            self._heard_at = time.monotonic()
            self.machine.opened(token, form)

        seconds = self.options.timeout_seconds
        if self.machine.servers.more(self.machine.url):
            seconds = min(seconds, OPEN_SECONDS)
        url, transport = self.machine.url, self.machine.transport
        seconds = self.machine.within(seconds)
        proxy = proxy_of(url, self._proxy)
        if self._problem.startswith(NO_ATTEMPT):
            self._problem = by_way_of(proxy, f"{url} has not answered yet")
        return await self._carrier.run(transport, url, self._form, seconds, self._tls, proxy, opened, self._watch)

    async def _refresh(self) -> None:
        """Ask for the list of servers; where it cannot be had, the list at hand serves."""
        if self._source is None:
            return
        seconds = self.options.timeout_seconds
        if self.machine.servers.urls:
            seconds = min(seconds, LIST_SECONDS)
        try:
            servers = await fetch_servers(self._source, seconds, self._tls, self._proxy)
        except Exception as error:
            if not self.machine.servers.urls:
                raise
            log.warning("the list of servers could not be had: %r", error)
        else:
            self.machine.servers.replace(servers)

    async def _current_token(self) -> str:
        """Return a new token; where none can be had the last one serves, and the server says if it does not."""
        try:
            self._last_token = await self._ask_token()
        except Exception as error:
            if not self._last_token:
                raise
            log.warning("no new token could be had: %r", error)
        return self._last_token

    async def _ask_token(self) -> str:
        """Return what ``token`` says now; a source that does not answer in time has failed, with TimeoutError."""
        source = self.token
        token = await ask(source, self.options.token_seconds, "the token") if callable(source) else source
        return check_token(token or "")

    async def _watch(self) -> str:
        """Measure the latency; returns when there is no sign of life."""
        while True:
            began = time.monotonic()
            self._expect(self.machine.state.ping()).add_done_callback(partial(self._measured, began))
            next_ping = began + self.options.ping_seconds
            while (now := time.monotonic()) < next_ping:
                silence = self.options.silence_seconds
                if not self.machine.connected:
                    silence = self.machine.within(silence)
                left = self._heard_at + silence - now
                if left <= 0 and not self._stalled:
                    return f"no sign of life for {silence:g} s"
                await asyncio.sleep(min(next_ping - now, left) if left > 0 else next_ping - now)

    def _measured(self, began: float, pong: asyncio.Future[wire.AnyAnswer]) -> None:
        if not pong.cancelled() and pong.exception() is None:
            self.latency_ms = (time.monotonic() - began) * 1000

    # What happens.

    async def _receive(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        events = self.machine.receive(data, self._heard_at)
        self.happened(events)
        for event in events:
            if isinstance(event, Arrived) and len(event.owner) >= QUEUE_MESSAGES_MAX:
                await self._stall(event.owner)

    def happened(self, events: Iterable[MachineEvent]) -> None:
        """Tell everybody whom it concerns."""
        for event in events:
            match event:
                case Arrived(stream, message):
                    stream.push(message)
                case Answered(number, answer):
                    self._answers.settle(number, answer)
                case Settled():
                    self._settled(event)
                case InterestChange(subjects, wanted):
                    self._tell_interest(subjects, wanted)
                case RequestArrived(asked):
                    self.responding.asked(asked)
                case RequestOver(to):
                    self.responding.over(to)
                case Renew():
                    self._renewal = asyncio.create_task(self._renew_by_callable())
                case ProbeTransport(url, transport):
                    self._probe = asyncio.create_task(self._find_out(url, transport))
                case SubscriptionRefused(stream, _, error):
                    stream.end(error)
                    self.machine.unsubscribe(stream.subjects, stream)
                case Status():
                    self._noticed(event)
        if self.machine.leaving is not None:
            self._carrier.leave(LinkEnd(*self.machine.leaving))
        self.wake()

    def _tell_interest(self, subjects: list[str], wanted: bool) -> None:
        if self.on_interest is not None:
            try:
                self.on_interest(subjects, wanted)
            except Exception:
                log.exception("the callback for interest failed")

    def _settled(self, settled: Settled) -> None:
        future = self._waiting.pop(settled.publication, None)
        if future is None or future.done():
            return
        outcome = settled.outcome()
        if isinstance(outcome, Position):
            future.set_result(outcome)
        else:
            rejected = self.machine.failure if isinstance(outcome, Unavailable) else None
            future.set_exception(rejected or outcome)
            future.exception()  # seen, even where nobody waits for it

    def _noticed(self, status: Status) -> None:
        if status.name in ("denied", "revoked"):
            log.warning(
                "subscription to %s is %s: %s; it waits for the right",
                status.subject,
                status.name,
                status.reason,
            )
        if status.name == "connected":
            self._connected.set()
        self.statuses.tell(status)

    async def _renew_by_callable(self) -> None:
        """Renew the token in time, so that the connection lives on; a renewal that fails is tried again."""
        try:
            await self.renew(await self._ask_token())
        except Exception as error:
            self.statuses.tell(Status(name="error", reason=f"the token could not be renewed: {error!r}"))
            self.machine.not_renewed(time.monotonic())
            self.wake()

    async def _find_out(self, url: str, transport: Transport) -> None:
        """Find out if a transport above that of the connection works by now."""
        proxy = proxy_of(url, self._proxy)
        works = await probe(transport, url, self._form, self.options.step_down_seconds, self._tls, proxy)
        self.machine.probed(url, transport, works, time.monotonic())
        self.happened([])

    async def _stall(self, stream: MessageStream) -> None:
        """Read nothing more until the program has caught up."""
        self._stalled = True
        try:
            await stream.wait_room(QUEUE_MESSAGES_MAX)
        finally:
            self._stalled = False
            self._heard_at = time.monotonic()

    def _tick(self) -> None:
        self._timer = None
        self.happened(self.machine.tick(time.monotonic()))

    def _gone(self, why: str, too_big: bool = False) -> None:
        """Note that the connection is over, and with it the answers that were due."""
        self._connected.clear()
        self.latency_ms = None
        self._answers.fail(TooLarge("too_large", why) if too_big else Disconnected(why))

    def _finish(self, error: Exception | None) -> None:
        for stream in self.machine.following.wanted.everybody():
            stream.end(error)
        self.statuses.end()


def _replies(responses: Iterable[wire.Response]) -> list[Reply]:
    return [Reply(response.content, response.fields) for response in responses]
