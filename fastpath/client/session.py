"""The asynchronous client: one WebSocket at a time, replaced when it is lost (protocol.md 1, 3 to 5, 7)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Any, Self

from fastpath.core import messages as wire
from fastpath.core.codec import FORMS, Form
from fastpath.core.errors import Close
from fastpath.core.messages import GUARANTEED, Fields, Value
from fastpath.core.subject import check_subject

from .answers import Answers, Statuses
from .backoff import Backoff
from .errors import (
    ClientError,
    ConnectionRejected,
    Disconnected,
    NotReady,
    TooLarge,
    Unavailable,
    may_reconnect,
    refusal,
)
from .feed import Feed, MessageStream
from .line import ABNORMAL, End, Line
from .message import Position, Status
from .state import Answered, Arrived, ClientState, Refused

Token = str | Callable[[], str | Awaitable[str]] | None

log = logging.getLogger("fastpath.client")

QUEUE_MESSAGES_MAX = 100_000
"""Messages that wait in one stream; beyond, the client stops reading and the server's slow-consumer rule applies."""

RETRY_SECONDS = 0.5
"""Pause before a publication answered ``not_ready`` is tried again."""


class Client:
    """See ``fastpath.client.connect``, which makes it."""

    def __init__(
        self,
        urls: str | Iterable[str],
        token: Token = None,
        form: Form = "msgpack",
        *,
        on_status: Callable[[Status], None] | None = None,
        timeout_seconds: float = 10,
        ping_seconds: float = 10,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        if not self._urls or not all(url.startswith(("ws://", "wss://")) for url in self._urls):
            raise ValueError("an address is ws://host:port/ws or wss://host:port/ws")
        if form not in FORMS:
            raise ValueError(f"the form is one of {', '.join(FORMS)}, not {form!r}")
        self._token = token
        self._form: Form = form
        self._timeout = timeout_seconds
        self._ping_seconds = ping_seconds
        self._tls = tls
        self._state = ClientState(form)
        self._answers = Answers()
        self._statuses = Statuses(on_status)
        self._line = Line(self._state.take_out, self._receive)
        self._connected = asyncio.Event()
        self._stalled = False
        self._renewed = False
        self._closing = False
        self._failure: Exception | None = None
        self._problem = "no attempt yet"
        self._task: asyncio.Task[None] | None = None
        prefix = secrets.token_hex(3)
        self._closures = (f"{prefix}{number:x}" for number in count())
        self._renewal: asyncio.Task[None] | None = None
        self.url = ""
        self.latency_ms: float | None = None

    # The life of the client.

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        try:
            await self._until_connected(self._timeout)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection and end all streams."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._renewal is not None:
            self._renewal.cancel()
        self._lost(End(1000, "the client was closed"))
        self._finish(self._failure)

    @property
    def connected(self) -> bool:
        """Whether a connection stands at this moment."""
        return self._connected.is_set() and self._failure is None

    @property
    def user(self) -> str:
        """The user that the server took the token for; empty for anonymous."""
        return self._state.user

    @property
    def status(self) -> Feed[Status]:
        """A new feed of the changes of status from now on: ``async for status in client.status``."""
        return self._statuses.feed()

    # What a program asks for.

    def subscribe(
        self,
        subjects: str | Iterable[str],
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | tuple[int, int] | None = None,
        slow: str = "close",
    ) -> MessageStream:
        """Subscribe, and read the messages with ``async for`` (protocol.md 3.2).

        ``history`` newest messages come first, else the snapshot; ``conflation`` is in ms; ``since`` is the
        last (epoch, sequence) seen, for each subject or for the only one. ``slow``: while this client does not
        keep up, ``"conflate"`` merges messages (``status`` says so); ``"close"`` queues them, and the client
        reconnects and resumes when the queue overflows. A subject has one stream:
        subscribing again takes it over. Without the right, the stream waits for it and ``status`` says so.
        Raises InvalidSubject.
        """
        names = [subjects] if isinstance(subjects, str) else list(dict.fromkeys(subjects))
        for name in names:
            check_subject(name)
        if isinstance(since, tuple):
            since = dict.fromkeys(names, since)
        stream = MessageStream(names, self.unsubscribe)
        if self._failure is not None or self._closing:
            stream.end(self._failure)
            return stream
        for owner, subject in self._state.subscribe(stream, names, history, conflation, since, slow):
            owner.leave({subject})
        self._line.wake.set()
        return stream

    async def unsubscribe(self, subjects: str | Iterable[str]) -> None:
        """Unsubscribe; nothing of these subjects comes after it, not even what waits in a stream."""
        names = {subjects} if isinstance(subjects, str) else set(subjects)
        wanted = self._state.subscriptions
        streams = {wanted[name].owner for name in names if name in wanted}
        numbers = self._state.unsubscribe(names)
        for stream in streams:
            stream.drop(lambda message: message.subject in names)
            stream.leave(names)
        end = time.monotonic() + self._timeout
        # A connection that is lost meanwhile has forgotten the subjects just as well.
        with contextlib.suppress(Disconnected):
            await asyncio.gather(*(self._wait(number, end) for number in numbers))

    async def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None = None,
        *,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str | None = None,
    ) -> Position:
        """Publish and wait for the acknowledgement; its position, (0, 0) for standard quality.

        Waits for a connection if there is none. Raises Denied, TooLarge, Invalid, Failed; NotReady or
        Unavailable after ``timeout_seconds``; Disconnected when the connection was lost before the answer, so
        that it is not known whether the message was published; InvalidSubject.
        """
        check_subject(subject)
        end = time.monotonic() + self._timeout
        while True:
            await self._until_connected(end - time.monotonic())
            number = self._state.publish(subject, content, fields, next(self._closures), retained, qos, reply_to or "")
            answer = await self._wait(number, end)
            assert isinstance(answer, wire.Published)
            if answer.status == "ok":
                return Position(answer.epoch or 0, answer.seq or 0)
            error = refusal(answer.status, answer.reason)
            if not isinstance(error, NotReady) or time.monotonic() + RETRY_SECONDS > end:
                raise error
            await asyncio.sleep(RETRY_SECONDS)

    async def renew(self, token: str) -> None:
        """Renew the token of the live connection, and use this one at reconnections; raises BadToken."""
        await self._until_connected(self._timeout)
        await self._wait(self._state.renew(token), time.monotonic() + self._timeout)
        if not callable(self._token):
            self._token = token
        self._statuses.tell(Status(name="renewed"))

    # Answers.

    def _answer(self, number: int) -> asyncio.Future[wire.AnyAnswer]:
        self._line.wake.set()
        return self._answers.expect(number)

    async def _wait(self, number: int, end: float) -> wire.AnyAnswer:
        future = self._answer(number)
        try:
            async with asyncio.timeout(max(0.001, end - time.monotonic())):
                answer = await future
        except TimeoutError:
            raise Unavailable(f"{self.url} gave no answer within {self._timeout:g} s") from None
        if isinstance(answer, wire.Error):
            raise refusal(answer.code, answer.reason)
        return answer

    async def _until_connected(self, seconds: float) -> None:
        if self._task is None:
            raise ClientError("the client is not open yet: use it inside `async with connect(…) as client:`")
        if not self._connected.is_set() and self._failure is None and not self._closing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.001, seconds)):
                    await self._connected.wait()
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise ClientError("the client is closed")
        if not self._connected.is_set():
            raise Unavailable(f"no server answers at {', '.join(self._urls)} ({self._problem})")

    # The connection.

    async def _run(self) -> None:
        backoff = Backoff()
        attempt = 0
        try:
            while True:
                self.url = self._urls[attempt % len(self._urls)]
                end = await self._connect()
                # An established connection that is lost is sought at the first address again.
                attempt = 0 if self.connected else attempt + 1
                if self.connected:
                    backoff.reset()
                again = self._hopeful(end)
                pause = 0.0 if again or attempt % len(self._urls) else backoff.next_seconds()
                self._lost(end, pause)
                await asyncio.sleep(pause)
        except Exception as error:
            self._failure = error
            self._lost(End(getattr(error, "code", ABNORMAL), str(error)))
            self._finish(error)
            self._connected.set()  # whoever waits for a connection wakes up, and sees the failure

    async def _connect(self) -> End:
        try:
            token = await self._current_token()
        except Exception as error:
            # It may come from a server that is away, like ours: no reason to give up.
            return End(ABNORMAL, f"no token could be had: {error!r}")

        async def opened(form: Form) -> None:
            self._state.open(token, form)

        return await self._line.run(self.url, self._form, self._timeout, self._tls, opened, self._watch)

    async def _current_token(self) -> str:
        token = self._token() if callable(self._token) else self._token
        if inspect.isawaitable(token):
            token = await token
        return token or ""

    def _hopeful(self, end: End) -> bool:
        """Whether to reconnect without a pause, with a new token; raises ConnectionRejected if not to reconnect."""
        if end.code in (Close.TOKEN_EXPIRED, Close.BAD_TOKEN) and callable(self._token) and not self._renewed:
            self._renewed = True
            return True
        # One frame that was too big is that frame's fault; its publication has failed, the others go on.
        if end.code == Close.TOKEN_EXPIRED or not (may_reconnect(end.code) or end.code == Close.TOO_BIG):
            raise ConnectionRejected(end.code, end.reason)
        return False

    async def _watch(self) -> str:
        """Measure the latency; returns when there is no sign of life."""
        while True:
            began = time.monotonic()
            answer = self._answer(self._state.ping())
            try:
                # Not wait_for: in Python 3.11 it swallows a cancellation that comes with the answer.
                async with asyncio.timeout(self._ping_seconds):
                    await answer
                self.latency_ms = (time.monotonic() - began) * 1000
            except TimeoutError:
                if not self._stalled:
                    return f"no sign of life for {self._ping_seconds:g} s"
            await asyncio.sleep(max(0.0, began + self._ping_seconds - time.monotonic()))

    async def _receive(self, data: bytes) -> None:
        for event in self._state.receive(data):
            match event:
                case Arrived(stream, message):
                    stream.push(message)
                    if len(stream) >= QUEUE_MESSAGES_MAX:
                        await self._stall(stream)
                case Answered(number, answer):
                    self._answers.settle(number, answer)
                    if isinstance(answer, wire.Connected):
                        self._renewed = False
                        self._connected.set()
                        self._statuses.tell(Status(name="connected", url=self.url))
                case Refused(stream, _, error):
                    stream.end(error)
                    self._state.unsubscribe(stream.subjects)
                case Status():
                    self._noticed(event)
        if self._state.out:
            self._line.wake.set()

    async def _stall(self, stream: MessageStream) -> None:
        """Read nothing more until the program has caught up."""
        self._stalled = True
        try:
            await stream.wait_room(QUEUE_MESSAGES_MAX)
        finally:
            self._stalled = False

    def _noticed(self, status: Status) -> None:
        if status.name in ("denied", "revoked"):
            log.warning(
                "subscription to %s is %s: %s; it waits for the right",
                status.subject,
                status.name,
                status.reason,
            )
        if status.name == "expiring" and callable(self._token):
            self._renewal = asyncio.create_task(self._renew_by_callable())
        self._statuses.tell(status)

    async def _renew_by_callable(self) -> None:
        """In time, so that the connection lives on; if it fails, the next connection asks for a token again."""
        try:
            await self.renew(await self._current_token())
        except Exception as error:
            self._statuses.tell(Status(name="error", reason=f"the token could not be renewed: {error!r}"))

    def _lost(self, end: End, pause: float = 0) -> None:
        """Everything that belongs to the connection ends with it."""
        self._connected.clear()
        self._state.lose()
        self.latency_ms = None
        self._problem = f"{end.code} {end.reason}"
        too_big = TooLarge("too_large", end.reason) if end.code == Close.TOO_BIG else None
        self._answers.fail(too_big or Disconnected(f"the connection was lost before the answer: {self._problem}"))
        name = "failed" if self._failure else "disconnected"
        self._statuses.tell(Status(name=name, code=end.code, reason=end.reason, url=self.url, retry_seconds=pause))

    def _finish(self, error: Exception | None) -> None:
        for stream in {wanted.owner for wanted in self._state.subscriptions.values()}:
            stream.end(error)
        self._statuses.end()


def connect(urls: str | Iterable[str], token: Token = None, form: Form = "msgpack", **options: Any) -> Client:
    """``async with connect("ws://127.0.0.1:8800/ws", token) as client:``.

    ``urls``: one address or several; the first is preferred. ``token``: a text, or a callable (async or not)
    that is asked at each connect. ``form``: ``"msgpack"`` or ``"json"``. Options: ``on_status`` called with
    each Status, ``timeout_seconds`` for a connect and for an answer, ``ping_seconds``, ``tls``, an
    ssl.SSLContext. Entering raises Unavailable or ConnectionRejected; later losses are repaired by the client
    itself.
    """
    return Client(urls, token, form, **options)
