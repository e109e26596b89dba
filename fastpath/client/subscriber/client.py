"""The asynchronous client: what a program asks for and gets (protocol.md 3 to 5); driver.py does the I/O."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import count
from typing import Literal, Self, Unpack, overload

from fastpath.core.protocol.codec import FORMS, Form
from fastpath.core.protocol.messages import GUARANTEED, Advertised, Fields, Present, Responding, Value
from fastpath.core.protocol.subject import check_pattern, check_subject
from fastpath.core.protocol.trace_context import read_traceparent

from ..arguments import (
    NUMBER_MAX,
    check_closure,
    check_count,
    check_patterns,
    check_positions,
    check_quality,
    check_subscription,
    check_text,
    check_token,
    check_values,
)
from ..discovery import ServersSource, check_source
from ..errors import Disconnected, Unavailable, refusal
from ..message import Message, Position, Presence, Reply, Status, presence_of
from ..options import OptionNames, Options, Transport
from ..past import Lake, Past, end_of, joined, reaches, since_of
from ..requests.responding import Handler
from ..servers import Servers, parse_servers
from .answers import Statuses
from .driver import Driver, Interest, Token
from .machine import Machine
from .outgoing import OutgoingPublication
from .streams import Feed, MessageStream, either
from .subscription_set import check_name
from .transports.memory import PROCESS
from .transports.proxies import check_proxy


class Client:
    """The asyncio client that ``fastpath.client.connect`` returns: subscriptions and publications of one connection."""

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
        servers = parse_servers(urls)
        check_source(servers_url)
        check_proxy(proxy)
        if not servers and servers_url is None:
            raise ValueError("an address is needed: ws://host:port/ws or wss://host:port/ws, or servers_url")
        if form not in FORMS:
            raise ValueError(f"the form is one of {', '.join(FORMS)}, not {form!r}")
        if token is not None and not callable(token):
            check_token(token)
        self._options = Options(**options)
        self._statuses = Statuses(on_status)
        self._machine = Machine(form, servers, self._options, renewable=callable(token), memory=PROCESS)
        self._driver = Driver(self._machine, self._options, token, form, tls, proxy, servers_url, self._statuses)
        prefix = secrets.token_hex(3)
        self._closures = (f"{prefix}{number:x}" for number in count())

    async def __aenter__(self) -> Self:
        # Here, and not when it is made: two processes that were forked since would number under one name.
        self._machine.state.publish_as(secrets.token_hex(12))
        self._driver.start()
        try:
            await self._driver.until_connected(self._options.timeout_seconds)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection and end all streams; what waits to be published is not published any more."""
        await self._driver.stop()

    def pause(self) -> None:
        """Let go of the connection; subscriptions stay, and publications wait until ``resume()``."""
        self._driver.pause()

    def resume(self) -> None:
        """Connect again after ``pause()``, and get what was missed."""
        self._driver.resume()

    def reconnect(self) -> None:
        """Do not wait any longer for the next attempt: try now, unless it is connected; after ``pause()`` too.

        What the program asks for (``subscribe``, ``publish``, ``request`` …) does so by itself, every 5 s at most.
        """
        self._driver.reconnect()

    @property
    def connected(self) -> bool:
        """True while the client is connected to a server."""
        return self._driver.connected

    @property
    def url(self) -> str:
        """The server that is tried or connected; empty before the first attempt."""
        return self._machine.url

    @property
    def transport(self) -> Transport:
        """Name of the transport that carries the connection or is tried: ``websocket``, ``stream`` or ``poll``."""
        return self._machine.transport

    @property
    def latency_ms(self) -> float | None:
        """The last measured time there and back; None before the first on a connection."""
        return self._driver.latency_ms

    @property
    def user(self) -> str:
        """The user that the server took the token for; empty for anonymous."""
        return self._machine.state.user

    @property
    def status(self) -> Feed[Status]:
        """A new feed of the changes of status from now on: ``async for status in client.status``."""
        return self._statuses.feed()

    def subscribe(
        self,
        subjects: str | Iterable[str],
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | tuple[int, int] | None = None,
        slow: str = "close",
    ) -> MessageStream:
        """Subscribe to subjects and patterns, and read the messages with ``async for`` (protocol.md 3.2, 3.8).

        ``history`` newest messages come first, else the snapshot; ``conflation`` is in ms; ``since`` is the
        last (epoch, sequence) seen, for each subject or for the only one. ``slow``: while this client does not
        keep up, ``"conflate"`` merges messages (``status`` says so); ``"close"`` queues them, and the client
        reconnects and resumes when the queue overflows. Each call is a subscription of its own: a second one to the
        same subject or pattern begins as the first did, and what is asked of the server serves both (the shorter
        interval, ``"close"`` before ``"conflate"``). A message goes to each stream that has its subject, or a pattern
        over it. Without the right, the stream waits for it and ``status`` says so.
        Raises InvalidSubject; ValueError and TypeError for other options.
        """
        names = [subjects] if isinstance(subjects, str) else list(dict.fromkeys(subjects))
        for name in names:
            check_name(name)
        check_subscription(history, conflation, slow)
        positions = check_positions(names, since)
        stream = MessageStream(names, self._leave)
        if self._machine.failure is not None or self._driver.closing:
            stream.end(self._machine.failure)
            return stream
        self._machine.following.subscribe(stream, names, history, conflation, positions, slow)
        self._driver.wake()
        self._driver.hurry()
        return stream

    async def unsubscribe(self, subjects: str | Iterable[str]) -> None:
        """Unsubscribe; nothing of these subjects comes to any stream after it, not even what waits in one."""
        names = {subjects} if isinstance(subjects, str) else set(subjects)
        streams = {stream for name in names for stream in self._machine.following.wanted.owners(name)}
        await self._end(names, streams, None)

    async def _leave(self, stream: MessageStream, names: set[str]) -> None:
        await self._end(names, {stream}, stream)

    async def _end(self, names: set[str], streams: Iterable[MessageStream], owner: MessageStream | None) -> None:
        numbers, told = self._machine.unsubscribe(names, owner)
        for stream in streams:
            stream.leave(names)
            stream.drop(stream.unwanted(names))
        self._driver.happened(told)
        end = time.monotonic() + self._options.timeout_seconds
        # A connection that is lost meanwhile has forgotten the subjects just as well.
        with contextlib.suppress(Disconnected):
            await asyncio.gather(*(self._driver.answer(number, end) for number in numbers))

    async def history(
        self, subject: str, since: datetime | int | tuple[int, int] | None = None, lake: Lake | None = None
    ) -> Past:
        """Return what is known of a subject's past: its snapshot, what is cached, and before that what a lake has.

        ``since`` is a time (a datetime with its zone, or ms since 1970) or the position behind which to begin; without
        it everything. ``lake`` is a callable (``fastpath.client.past.Lake``), ``spark.lake_history.Lake(folder)`` or
        another: it is called in a thread, when the server has shown that the subject may be read, unless the cache
        reaches back to ``since``. Messages that neither has are ``gaps`` of what is returned. Raises Denied and
        NotReady without the right, Unavailable where no server answers in time, InvalidSubject, TypeError, ValueError,
        and what the lake raises.
        """
        check_subject(subject)
        wanted = since_of(since)
        self._driver.check_open()
        async with self.subscribe(subject, history=NUMBER_MAX) as tail:
            cached, position = end_of(await self._stored(subject, tail), self._machine.following.wanted.at(subject))
            async with self.subscribe(subject) as newest:
                snapshots = [one for one in await self._stored(subject, newest) if one.kind == "snapshot"]
        # The cache first: what leaves it meanwhile is in the lake by then.
        archived: Iterable[Message] = ()
        if lake is not None and not reaches(cached, wanted):
            asked = await asyncio.to_thread(lake, subject, wanted)
            archived = await asked if inspect.isawaitable(asked) else asked
        messages, gaps = joined(archived, cached, wanted)
        return Past(snapshots[0] if snapshots else None, messages, position, gaps)

    async def _stored(self, subject: str, stream: MessageStream) -> list[Message]:
        """Return all that came until a new subscription had what it begins with; raise as ``history`` does."""
        found: list[Message] = []
        statuses, wanted = self.status, self._machine.following.wanted
        try:
            while not wanted.is_level(subject, stream):
                async with asyncio.timeout(self._options.timeout_seconds):
                    await either(stream, statuses)
                found += await stream.take() if len(stream) else []
                for status in await statuses.take() if len(statuses) else ():
                    if status.subject == subject and status.name in ("denied", "not_ready", "revoked"):
                        raise refusal("not_ready" if status.name == "not_ready" else "denied", status.reason)
        except TimeoutError:
            if wanted.waits(subject):
                raise refusal("denied", f"{subject} may not be read") from None
            raise Unavailable(f"no server has told of {subject} in time") from None
        except StopAsyncIteration:
            raise Unavailable("the client was closed") from None
        return found + (await stream.take() if len(stream) else [])

    async def publish(
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
        """Publish and wait for the acknowledgement; its position, (0, 0) for standard quality.

        Without a connection it waits in a bounded queue. Until it is answered it is sent again after each reconnection,
        in order, and stored once; with standard quality it is sent once. Raises Denied, TooLarge, Invalid, Failed;
        after ``publish_seconds`` Unavailable (it was never sent), NotReady, or Unknown (it may have been stored);
        QueueFull at once; InvalidSubject. ``closure`` is the program's own name for it, told with the status that
        says what became of it. With ``replace`` no field of before stays in the snapshot. ``traceparent`` is the
        context of the trace that it belongs to (protocol.md 5.5): ``fastpath.client.spans`` makes it of a span. A
        cancelled wait does not take the publication back.
        """
        future = self.enqueue(
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
        return await asyncio.shield(future)

    async def remove(self, subject: str, *, qos: str = GUARANTEED, closure: str | None = None) -> Position:
        """Remove a subject and wait for the acknowledgement; the removal's position, (0, 0) for standard quality.

        The subject's snapshot is gone, and its subscribers get a message that is ``removed``; what is published later
        begins with nothing. Sent again, refused and told of as ``publish`` has it.
        """
        return await asyncio.shield(self.enqueue(subject, "", qos=qos, closure=closure, removed=True))

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
    ) -> asyncio.Future[Position]:
        """Queue a publication without waiting; the future has its position, or raises what ``publish`` does.

        With ``removed``, and empty content, it is what ``remove`` sends. QueueFull is raised here, as are
        InvalidSubject, Invalid for half a character, and Limited for a closure of over 256 characters.
        """
        check_subject(subject)
        check_closure(closure)
        check_quality(qos)
        self._driver.check_open()
        publication = OutgoingPublication(
            subject,
            content,
            dict(fields or {}),  # the program's own may be another before it is sent
            bool(retained),
            qos,
            reply_to or "",
            closure or next(self._closures),
            bool(closure),
            replace=bool(replace),
            removed=bool(removed),
            traceparent=read_traceparent(traceparent) or "",
        )
        future = self._driver.publish(publication)
        if future.done():
            future.result()
        return future

    async def presence(self, subject: str = "") -> Presence:
        """Return the users subscribed to a subject, or without a subject the users online (protocol.md 3.9).

        Raises Denied, Invalid, NotReady; Unavailable without a connection in time, Disconnected when it is lost.
        """
        check_text("the subject", subject)
        answer = await self._driver.command(lambda: self._machine.state.presence(subject))
        assert isinstance(answer, Present)
        return presence_of(answer)

    async def advertise(self, patterns: str | Iterable[str], on_interest: Interest | None = None) -> dict[str, str]:
        """Hear which subjects of these patterns, which this client can publish, anybody is subscribed to (3.10).

        ``on_interest(subjects, wanted)`` is called for those that are, and then for each first subscriber and each
        last that leaves. It lasts over reconnections; a lost connection tells all as not wanted. A later call replaces
        the patterns, none ends it. Returns the patterns that the server refused, and why. Raises as ``presence``.
        """
        names = [patterns] if isinstance(patterns, str) else list(patterns)
        check_patterns(names)
        if on_interest is not None:
            self._driver.on_interest = on_interest
        await self._driver.until_connected(self._options.timeout_seconds)
        answer = await self._driver.command(lambda: self._advertise(names))
        assert isinstance(answer, Advertised)
        return {offer.pattern: offer.reason for offer in answer.results if offer.error}

    @overload
    async def request(  # type: ignore[overload-overlap]
        self,
        subject: str,
        content: Value,
        *,
        fields: Fields | None = None,
        timeout: float = 5.0,  # noqa: ASYNC109
        replies: Literal[1] = 1,
    ) -> Reply: ...

    @overload
    async def request(
        self,
        subject: str,
        content: Value,
        *,
        fields: Fields | None = None,
        timeout: float = 5.0,  # noqa: ASYNC109
        replies: int,
    ) -> list[Reply]: ...

    async def request(
        self,
        subject: str,
        content: Value,
        *,
        fields: Fields | None = None,
        timeout: float = 5.0,  # noqa: ASYNC109 - it goes with the request, and the server tells its end
        replies: int = 1,
    ) -> Reply | list[Reply]:
        """Ask whoever responds to the subject, and wait for the reply (protocol.md 3.12).

        ``timeout`` is in s, at most 300, and counts from now on, also while there is no connection. With ``replies``
        above 1: a list of up to so many, in their order, as the responder says which is the last. Raises NoResponders,
        at once; RequestTimeout, ResponderGone, ResponderError (the responder's own), and RequestFailed for other codes,
        each with the ``replies`` that came before; Denied, NotReady, TooLarge, Limited, InvalidSubject; Unavailable
        (never sent); Disconnected: the connection was lost, and whether it was done is not known. It is sent once.
        """
        check_subject(subject)
        check_count("replies", replies, 1)
        check_values(content, fields or {})
        found = await self._driver.request(
            lambda ms: self._machine.state.request(subject, content, fields or {}, ms, replies), timeout
        )
        return found[0] if replies == 1 else found

    def _advertise(self, names: list[str]) -> int:
        number = self._machine.state.advertise(names)  # what passes the server's bound changes nothing
        self._driver.happened(self._machine.state.offer(names))
        return number

    async def respond(self, pattern: str, handler: Handler) -> Responder:
        """Answer requests to the subjects of a pattern, as one of all who do; ``handler(request)`` returns the reply.

        The handler is a function or a coroutine function; it returns content, a Reply with fields, or None (empty), and
        raises ResponderError to reply with an error. Further replies before the last: ``request.reply(content)``. Each
        request has a task of its own, which is cancelled when nobody waits for it any more. It lasts over
        reconnections, until ``close()`` of what is returned. Raises InvalidSubject, Limited, Denied, and as
        ``presence``. The right to read a subject is asked for with each request.
        """
        check_pattern(pattern, names=False)
        responding = self._driver.responding
        await self._driver.until_connected(self._options.timeout_seconds)
        responding.handle(pattern, handler)
        try:
            refused = (await self._respond()).get(pattern)
        except BaseException:
            # Who is left without a responder to close does not respond.
            if responding.handler(pattern) is handler:
                responding.drop(pattern)
                self._machine.state.responds(responding.patterns)
                if self.connected:
                    self._machine.state.respond(responding.patterns)
                    self._driver.wake()
            raise
        if refused is not None:
            responding.drop(pattern)
            self._machine.state.responds(responding.patterns)
            raise refusal(*refused)
        return Responder(self, pattern, handler)

    async def unrespond(self, pattern: str) -> None:
        """Answer no more requests to the subjects of the pattern; those that came before are answered."""
        self._driver.responding.drop(pattern)
        self._machine.state.responds(self._driver.responding.patterns)
        if self.connected:
            with contextlib.suppress(Disconnected):
                await self._respond()

    def responds(self, responder: Responder) -> bool:
        """Return whether the handler still is its pattern's."""
        return self._driver.responding.handler(responder.pattern) is responder.handler

    async def _respond(self) -> dict[str, tuple[str, str]]:
        """Tell the server which patterns have handlers; those that it refuses, each with code and reason."""
        patterns = self._driver.responding.patterns
        self._machine.state.responds(patterns)
        answer = await self._driver.command(lambda: self._machine.state.respond(patterns))
        assert isinstance(answer, Responding)
        return {offer.pattern: (offer.error, offer.reason) for offer in answer.results if offer.error}

    async def renew(self, token: str) -> None:
        """Renew the token of the live connection, and use this one at reconnections; raises BadToken."""
        await self._driver.renew(check_token(token))


class Responder:
    """A handler that answers requests; ``async with`` ends it, as ``close()`` does."""

    def __init__(self, client: Client, pattern: str, handler: Handler) -> None:
        self.pattern = pattern
        self.handler = handler
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Answer nothing more, unless another handler has taken the pattern over; what came before is answered."""
        if self._client.responds(self):
            await self._client.unrespond(self.pattern)


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
) -> Client:
    """Make a client for ``async with connect("ws://127.0.0.1:8800/ws", token) as client:``.

    ``urls``: an address, or several, each a text or ``(url, weight)``; one is picked at random by weight, 0 to 100,
    and another when it fails. ``servers_url``: where the list is asked for before each round of attempts, an address
    that answers as Django's ``/api/servers/``, or a callable. ``token``: a text, or a callable (async or not) that is
    asked before each round. ``form``: ``"msgpack"`` or ``"json"``. ``on_status`` is called with each Status; ``tls``
    is an ssl.SSLContext; ``proxy`` an ``http://``, ``https://`` or ``socks5://`` address by which each server is
    reached, None for none; True: as the environment says (``https_proxy`` and so on), but not to this machine itself.
    The other options are those of ``fastpath.client.options.Options``. Entering raises
    Unavailable or ConnectionRejected; later losses are repaired by the client itself.
    """
    return Client(urls, token, form, on_status=on_status, servers_url=servers_url, tls=tls, proxy=proxy, **options)
