"""The client without async: the same verbs, with a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import ssl
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload
from weakref import WeakSet

import msgspec

from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.messages import GUARANTEED, Fields, Value

from .discovery import ServersSource
from .errors import ClientError
from .message import Message, Position, Presence, Reply, Request, Status
from .options import OptionNames
from .past import Lake, Past
from .requests.responding import Handler, Returned
from .servers import Servers
from .subscriber.client import Client, Responder
from .subscriber.driver import Interest, Token
from .subscriber.streams import Feed, MessageStream

T = TypeVar("T")

NOT_OPEN = "the client is not open: use it inside `with connect(…) as client:`"

FORKED = "the client was opened before this process was forked, and its thread is not here: open one in each process"

RESPOND_THREADS = 16
"""Requests that the handlers of one blocking client answer at a time; others wait their turn."""

CLOSE_SECONDS = 1
"""Seconds that closing waits for what other threads have asked for."""


class BlockingFeed(Generic[T]):
    """A feed for threads: ``for item in feed:`` ends when the client is closed."""

    def __init__(self, client: BlockingClient, feed: Feed[T]) -> None:
        self._client = client
        self._feed = feed
        self._items: deque[T] = deque()
        self._taking = threading.Lock()  # several threads may read

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._taking:
            if self._items:
                return self._items.popleft()
        return self._fetch(None)

    def get(self, timeout_seconds: float | None = None) -> T:
        """Return the next item; raise TimeoutError after the seconds, and EOFError at the end."""
        with self._taking:
            if self._items:
                return self._items.popleft()
        try:
            return self._fetch(timeout_seconds)
        except StopIteration:
            raise EOFError("nothing more comes") from None

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forget items that were fetched ahead."""
        with self._taking:
            self._items = deque(item for item in self._items if not unwanted(item))

    def _fetch(self, timeout_seconds: float | None) -> T:
        # All that is there in one step: a step between threads costs more than many messages.
        items = [] if self._client.closed else self._client.call(_all_of(self._feed, timeout_seconds))
        if not items:
            raise StopIteration
        with self._taking:
            self._items.extend(items)
            return self._items.popleft()


class BlockingStream(BlockingFeed[Message]):
    """The messages of some subjects; leave ``with`` (or call ``close()``) to unsubscribe from them."""

    def __init__(self, client: BlockingClient, stream: MessageStream) -> None:
        super().__init__(client, stream)
        self._stream = stream
        client.streams.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def subjects(self) -> set[str]:
        """The subjects and patterns that are this stream's."""
        return self._stream.subjects

    def unwanted(self, names: set[str]) -> Callable[[Message], bool]:
        """Return the test for messages of the left ``names`` alone, as ``MessageStream.unwanted`` does."""
        return self._stream.unwanted(names)

    def close(self) -> None:
        """Unsubscribe from the subjects that are still this stream's."""
        self._items.clear()
        if not self._client.closed:
            self._client.call(self._stream.aclose())


class BlockingClient:
    """A client like that of ``fastpath.client.connect``, for threads.

    ``on_status`` is called in the client's own thread, which must not wait: it may not call the client's verbs.
    """

    def __init__(
        self,
        urls: Servers = (),
        token: Token = None,
        form: Form = "msgpack",
        *,
        on_status: Callable[[Status], None] | None = None,
        servers_url: ServersSource | None = None,
        tls: ssl.SSLContext | None = None,
        proxy: str | bool | None = True,
        **options: Unpack[OptionNames],
    ) -> None:
        self._make: Callable[[], Client] = lambda: Client(
            urls, token, form, on_status=on_status, servers_url=servers_url, tls=tls, proxy=proxy, **options
        )
        self.streams: WeakSet[BlockingStream] = WeakSet()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._thread: threading.Thread | None = None
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.closed = False

    def __enter__(self) -> Self:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fastpath client", daemon=True)
        self._thread.start()
        try:
            self._client = self.call(self._enter())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and end all streams."""
        if self._forked:
            return  # all of it is the other process's
        with self._lock:
            if self.closed or self._loop is None:
                return
            self.closed = True
            future = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        future.result()
        self._stop()

    @property
    def transport(self) -> str:
        """Name of the transport that carries the connection or is tried: ``websocket``, ``stream`` or ``poll``; empty
        at first."""
        return "" if self._client is None else self._client.transport

    @property
    def connected(self) -> bool:
        """True while the client is connected to a server."""
        return self._client is not None and self._client.connected

    @property
    def user(self) -> str:
        """The user that the server took the token for; empty for anonymous."""
        return self._open.user

    @property
    def latency_ms(self) -> float | None:
        """The last measured time there and back; None before the first."""
        return self._open.latency_ms

    @property
    def status(self) -> BlockingFeed[Status]:
        """A new feed of the changes of status from now on."""
        return BlockingFeed(self, self.call(_now(lambda: self._open.status)))

    def subscribe(
        self,
        subjects: str | Iterable[str],
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | tuple[int, int] | None = None,
        slow: str = "close",
    ) -> BlockingStream:
        """Subscribe as ``Client.subscribe`` does; read the stream with ``for``, or with ``get(timeout_seconds)``."""
        stream = self.call(_now(lambda: self._open.subscribe(subjects, history, conflation, since, slow)))
        return BlockingStream(self, stream)

    def history(
        self, subject: str, since: datetime | int | tuple[int, int] | None = None, lake: Lake | None = None
    ) -> Past:
        """Return all that is known of a subject's past, as ``Client.history`` does; ``lake`` is called in a thread."""
        return self.call(self._open.history(subject, since, lake))

    def unsubscribe(self, subjects: str | Iterable[str]) -> None:
        """Unsubscribe from subjects or patterns, as ``Client.unsubscribe`` does."""
        names = {subjects} if isinstance(subjects, str) else set(subjects)
        streams = [stream for stream in self.streams if stream.subjects & names]
        unwanted = [stream.unwanted(names) for stream in streams]
        self.call(self._open.unsubscribe(names))
        for stream, of_them in zip(streams, unwanted, strict=True):
            stream.drop(of_them)

    def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None = None,
        *,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str | None = None,
        closure: str | None = None,
        replace: bool = False,
        traceparent: str | None = None,
    ) -> Position:
        """Publish as ``Client.publish`` does, and return the message's position."""
        return self.call(
            self._open.publish(
                subject,
                content,
                fields,
                retained=retained,
                qos=qos,
                reply_to=reply_to,
                closure=closure,
                replace=replace,
                traceparent=traceparent,
            )
        )

    def remove(self, subject: str, *, qos: str = GUARANTEED, closure: str | None = None) -> Position:
        """Remove a subject as ``Client.remove`` does, and return the removal's position."""
        return self.call(self._open.remove(subject, qos=qos, closure=closure))

    def enqueue(
        self,
        subject: str,
        content: Value,
        fields: Fields | None = None,
        *,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str | None = None,
        closure: str | None = None,
        replace: bool = False,
        removed: bool = False,
        traceparent: str | None = None,
    ) -> concurrent.futures.Future[Position]:
        """Queue a publication as ``Client.enqueue`` does; the future's ``result()`` waits for the answer."""
        self._check_process()
        with self._lock:
            loop = self._running()
            enqueued = asyncio.run_coroutine_threadsafe(
                _now(
                    lambda: self._open.enqueue(
                        subject,
                        content,
                        fields,
                        retained=retained,
                        qos=qos,
                        reply_to=reply_to,
                        closure=closure,
                        replace=replace,
                        removed=removed,
                        traceparent=traceparent,
                    )
                ),
                loop,
            )
        outcome: concurrent.futures.Future[Position] = concurrent.futures.Future()
        inner = enqueued.result()
        loop.call_soon_threadsafe(inner.add_done_callback, lambda done: _copy(done, outcome))
        return outcome

    def pause(self) -> None:
        """Close the connection until ``resume()``, as ``Client.pause`` does."""
        self.call(_now(lambda: self._open.pause()))

    def resume(self) -> None:
        """Connect again after ``pause()``, as ``Client.resume`` does."""
        self.call(_now(lambda: self._open.resume()))

    def reconnect(self) -> None:
        """Do not wait for the next attempt, as ``Client.reconnect`` does."""
        self.call(_now(lambda: self._open.reconnect()))

    def presence(self, subject: str = "") -> Presence:
        """Return the users subscribed or online, as ``Client.presence`` does."""
        return self.call(self._open.presence(subject))

    def advertise(self, patterns: str | Iterable[str], on_interest: Interest | None = None) -> dict[str, str]:
        """Advertise as ``Client.advertise`` does; the client's own thread calls ``on_interest``, as ``on_status``."""
        return self.call(self._open.advertise(patterns, on_interest))

    @overload
    def request(  # type: ignore[overload-overlap]
        self,
        subject: str,
        content: Value,
        *,
        fields: Fields | None = None,
        timeout: float = 5.0,
        replies: Literal[1] = 1,
    ) -> Reply: ...

    @overload
    def request(
        self, subject: str, content: Value, *, fields: Fields | None = None, timeout: float = 5.0, replies: int
    ) -> list[Reply]: ...

    def request(
        self,
        subject: str,
        content: Value,
        *,
        fields: Fields | None = None,
        timeout: float = 5.0,
        replies: int = 1,
    ) -> Reply | list[Reply]:
        """Ask whoever responds, as ``Client.request`` does."""
        return self.call(self._open.request(subject, content, fields=fields, timeout=timeout, replies=replies))

    def respond(self, pattern: str, handler: Callable[[Request], Returned]) -> BlockingResponder:
        """Answer requests as ``Client.respond`` does; a pool of RESPOND_THREADS threads calls the handler, which may
        use this client. Its ``request.reply`` may be called from there."""
        return BlockingResponder(self, self.call(self._open.respond(pattern, self._in_thread(handler))))

    def _in_thread(self, handler: Callable[[Request], Returned]) -> Handler:
        """Return the handler as a coroutine function that runs it in a thread of the client's own pool."""
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(RESPOND_THREADS, "fastpath-respond")
        pool, loop = self._pool, self._running()

        async def answered(request: Request) -> Returned:
            def reply(content: Value, fields: Fields | None = None) -> None:
                loop.call_soon_threadsafe(request.reply, content, fields)

            return await loop.run_in_executor(pool, handler, msgspec.structs.replace(request, reply=reply))

        return answered

    def renew(self, token: str) -> None:
        """Renew the connection's token, as ``Client.renew`` does."""
        self.call(self._open.renew(token))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's loop and wait for it."""
        if self._forked:
            work.close()
        self._check_process()
        with self._lock:
            try:
                loop = self._running()
            except ClientError:
                work.close()
                raise
            future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def _forked(self) -> bool:
        return self._loop is not None and self._process != os.getpid()

    def _check_process(self) -> None:
        # Before the lock, which a thread of the other process may have held.
        if self._forked:
            raise ClientError(FORKED)

    @property
    def _open(self) -> Client:
        if self._client is None:
            raise ClientError(NOT_OPEN)
        return self._client

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self.closed:
            raise ClientError(NOT_OPEN)
        return self._loop

    async def _enter(self) -> Client:
        return await self._make().__aenter__()

    async def _end(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        # Other threads may wait for something: let each have its answer, or the end, before the loop stops.
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        if waiting:
            await asyncio.wait(waiting, timeout=CLOSE_SECONDS)

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        self.closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()


class BlockingResponder:
    """A handler that answers requests; ``with`` ends it, as ``close()`` does."""

    def __init__(self, client: BlockingClient, responder: Responder) -> None:
        self._client = client
        self._responder = responder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer nothing more; what came before is answered."""
        if not self._client.closed:
            self._client.call(self._responder.close())


def connect(
    urls: Servers = (),
    token: Token = None,
    form: Form = "msgpack",
    *,
    on_status: Callable[[Status], None] | None = None,
    servers_url: ServersSource | None = None,
    tls: ssl.SSLContext | None = None,
    proxy: str | bool | None = True,
    **options: Unpack[OptionNames],
) -> BlockingClient:
    """Make a client for ``with connect("ws://127.0.0.1:8800/ws", token) as client:``; options as for
    ``fastpath.client.connect``."""
    return BlockingClient(
        urls, token, form, on_status=on_status, servers_url=servers_url, tls=tls, proxy=proxy, **options
    )


async def _all_of(feed: Feed[T], timeout_seconds: float | None) -> list[T]:
    """Wait for the feed's items and return them; empty at its end (a coroutine cannot raise StopIteration)."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await feed.take()
    except StopAsyncIteration:
        return []


async def _now(make: Callable[[], T]) -> T:
    return make()


def _copy(done: asyncio.Future[Position], outcome: concurrent.futures.Future[Position]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    if done.cancelled():
        outcome.set_exception(ClientError("the client is closed"))
    elif (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())
