"""A blocking client of the control socket, for Django and its agent (protocol.md 8)."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import ANSWER_BYTES_MAX, Unpacker, pack

from ..errors import ControlRefused, SidecarBusy, SidecarSilent, SidecarUnavailable
from .address import connect_control

VERSION = 1
FRAME_BYTES_MAX = 16 << 20
"""Bytes of one request at most (protocol.md 8.1)."""

Answer = dict[str, Any]

_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""Errors of a socket that can go on later."""


class Control:
    """A connection to a control socket, opened at its first use and again after a loss; threads may share it.

    ``path`` is that of the unix socket, or a ``tls://`` address of a sidecar on another host (address.py).

    Every verb raises SidecarUnavailable when no answer comes within ``timeout_seconds`` of the call, also when calls of
    other threads take that time, and ControlRefused when the sidecar says no. A verb is never sent twice: after
    SidecarUnavailable its effect is not known. Verbs with a ``deadline`` (of time.monotonic) wait no longer than that.
    """

    def __init__(self, path: str | os.PathLike[str], timeout_seconds: float = 5, client: str = "py/1") -> None:
        self.path = os.fspath(path)
        self._timeout = timeout_seconds
        self._client = client
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._readable = select.poll()
        self._owner = 0
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next verb opens another."""
        with self._lock:
            self._drop()

    def abandon(self) -> None:
        """Let go of the connection in a process that was forked, where a thread may have held the lock."""
        self._lock = threading.Lock()
        self._drop()

    def hello(self, deadline: float | None = None) -> Answer:
        """Return ``version, server, pid, mode, epoch, generation`` (None until rights have arrived),
        ``message_bytes_max``."""
        return self.call("hello", {"version": VERSION, "client": self._client}, deadline)

    def publish(
        self,
        messages: Sequence[Any],
        publisher: str | None = None,
        deadline: float | None = None,
        first: int | None = None,
    ) -> Answer:
        """Publish rows ``[subject, content, fields, meta]``; answers ``epoch`` and ``results``.

        One result a row: its sequence number, 0 for standard quality, ``[epoch, sequence number]`` when it was stored
        under another epoch, or ``[code, reason]`` (protocol.md 6.2, 6.3). With ``publisher`` a row whose meta has an
        ``id`` is stored once, however often it is sent; ids of a publisher rise. With ``first`` the rows have ids from
        it on.
        """
        return self.call("publish", _without_none(messages=messages, publisher=publisher, first=first), deadline)

    def request(
        self,
        subject: str,
        content: Any,
        fields: Mapping[str, Any] | None = None,
        timeout_seconds: float = 5.0,
        replies: int = 1,
    ) -> Answer:
        """Ask whoever responds: ``replies`` as ``[content, fields]``; where it failed ``error``, ``reason``, ``own``.

        Other calls of this connection wait meanwhile (protocol.md 8.20).
        """
        arguments = {
            "subject": subject,
            "content": content,
            "fields": dict(fields or {}),
            "timeout": max(1, int(timeout_seconds * 1000)),
            "replies": replies,
        }
        return self.call("request", arguments)

    def snapshot(self, subject: str, token: str | None = None, deadline: float | None = None) -> Answer:
        """Return ``status``, and ``reason`` or ``message``; without a token as for an anonymous user."""
        return self.call("snapshot", _without_none(subject=subject, token=token), deadline)

    def check(self, subject: str, action: str, token: str | None = None, deadline: float | None = None) -> Answer:
        """Return ``allowed`` and ``reason`` for ``action`` ``subscribe`` or ``publish``."""
        return self.call("check", _without_none(subject=subject, action=action, token=token), deadline)

    def subjects(
        self, pattern: str = "", prefix: str = "", after: str = "", limit: int = 100, deadline: float | None = None
    ) -> Answer:
        """Return a page of the subjects in use, in order: ``subjects`` as ``[subject, seq, snapshot, subscribed]``.

        ``total`` is how many the pattern or prefix covers, ``snapshots`` how many of these have a snapshot, ``more``
        whether there are others behind this page;
        ``after`` is the last subject of the page before. At most 1000 a page.
        """
        arguments = {"pattern": pattern, "prefix": prefix, "after": after, "limit": limit}
        return self.call("subjects", arguments, deadline)

    def stats(self) -> Answer:
        """Return the sidecar's figures by name, and ``by_worker`` each worker's (docs/operate/figures.md)."""
        return self.call("stats")

    def tree(self, prefix: str = "", begins: str = "", start: str = "", after: str = "", limit: int = 100) -> Answer:
        """Return the level right below ``prefix`` (empty: the root) among the subjects that have been published to.

        ``children`` as ``[segment, is_subject, below, seq]`` in order, from ``start`` on or behind ``after``, of those
        that begin with ``begins``; ``total`` of them, ``more`` whether there are others behind. At most 1000 a page.
        """
        arguments = {"prefix": prefix, "begins": begins, "start": start, "after": after, "limit": limit}
        return self.call("tree", arguments)

    def top(self, by: str = "rate", limit: int = 20) -> Answer:
        """Return the ``subjects`` with most messages (``rate``), ``bytes``, ``subscribers`` or ``deliveries``, at most
        100.

        Each has ``subject, messages_per_s, bytes_per_s, subscribers, deliveries_per_s``; rates are over ten seconds,
        and with ``shared`` those of all nodes on one Redis: the same messages.
        """
        return self.call("top", {"by": by, "limit": limit})

    def publishers(self, limit: int = 100) -> Answer:
        """Return the ``publishers`` on a port, at most 1000, and their ``total``; those that wait longest come first.

        Each has ``connection, publisher, user, address, since, messages, messages_per_s, unacknowledged`` (messages),
        ``batches`` (of them), ``oldest_ms`` (for how long the oldest waits) and ``last_ms`` (when it published last).
        ``senders`` are all who sent within the last hour, connected or not (protocol.md 8.11): ``user, kind, name,
        messages, messages_per_s, last_ms, unacknowledged, oldest_ms``, and of rows that are staged and not committed
        ``uncommitted`` (rows), ``uncommitted_bytes`` and ``uncommitted_ms`` (the age of the oldest).
        """
        return self.call("publishers", {"limit": limit})

    def jobs(self) -> Answer:
        """Return the ``jobs`` that report here, at most 200, the last heard of first; ``total``, and ``now`` in ms.

        Each has ``job, time`` (of its last report, ms), ``user, restarts`` and its ``fields`` (protocol.md 6.20).
        """
        return self.call("jobs")

    def transactions(self, limit: int = 50) -> Answer:
        """Return the ``transactions`` that committed last, at most 1000: the newest first (protocol.md 8.16).

        Each has ``user, transaction, batch, state, rows, rows_before, refused_rows, outdated`` and ``time`` (ms).
        """
        return self.call("transactions", {"limit": limit})

    def forget_transaction(self, user: str, transaction: str) -> bool:
        """Forget a transaction's last batch and drop what is staged of it; False: it is not known."""
        return bool(self.call("forget_transaction", {"user": user, "transaction": transaction})["forgotten"])

    def metrics(self) -> str:
        """Return the figures in Prometheus' text format, as the metrics listener shows them."""
        return str(self.call("metrics")["text"])

    def clients(
        self,
        user: str = "",
        address: str = "",
        subject: str = "",
        slow: bool = False,
        after: str = "",
        limit: int = 50,
    ) -> Answer:
        """Return a page of the clients that match all that is given, as ``clients``; at most 200 (protocol.md 8.8).

        ``user`` is a part of the name, ``address`` its beginning, ``subject`` one or a pattern; ``slow``: those with a
        queue, the longest first. ``total`` is how many there are; ``after`` asks for the next page while there is
        ``more``; ``away`` are workers that gave no answer.
        """
        return self.call(
            "clients", _given(user=user, address=address, subject=subject, slow=slow, after=after) | {"limit": limit}
        )

    def client(self, connection: str, after: str = "", limit: int = 200) -> Answer:
        """Return all that is known of one client (protocol.md 8.8); raise ControlRefused ``unknown`` when it is gone.

        The subscriptions come a page at a time: those behind the subject ``after``.
        """
        return self.call("client", {"connection": connection, "after": after, "limit": limit})

    def subject(self, subject: str) -> Answer:
        """Return a subject's position and its subscribers; raise ControlRefused ``unknown`` when the subject is not in
        use."""
        return self.call("subject", {"subject": subject})

    def history(self, subject: str, before: int = 0, limit: int = 20) -> Answer:
        """Return the cached ``messages`` of a subject, newest first, below the number ``before`` (0: all); at most
        100."""
        return self.call("history", {"subject": subject, "before": before, "limit": limit})

    def ping(self, connection: str) -> float:
        """Return the time that a client took to answer a WebSocket ping, in ms; raise ControlRefused ``timeout`` after
        4 s."""
        return float(self.call("ping", {"connection": connection})["ms"])

    def disconnect(self, connection: str = "", user: str = "", reason: str = "") -> Answer:
        """Close a connection, or all of a user, with 4506; ``clients`` and ``publishers``: how many."""
        return self.call("disconnect", _given(connection=connection, user=user, reason=reason))

    def unsubscribe(self, subject: str, connection: str = "", user: str = "", reason: str = "") -> Answer:
        """End the subscriptions of a connection, or of a user, to a subject or pattern (protocol.md 8.9).

        A pattern ends those by name to what it covers as well. ``clients, subscriptions``: how many.
        """
        return self.call("unsubscribe", _given(subject=subject, connection=connection, user=user, reason=reason))

    def trace(self, user: str = "", subject: str = "", connection: str = "", seconds: int = 60) -> str:
        """Begin to note what happens to one of these, for at most 60 s (protocol.md 8.10); the trace for ``traced``.

        ControlRefused ``limit`` while four run, ``unknown`` for a connection that is gone.
        """
        about = _given(user=user, subject=subject, connection=connection)
        return str(self.call("trace", about | {"seconds": seconds})["trace"])

    def traced(self, trace: str, after: int = 0) -> Answer:
        """Return the next ``events`` behind number ``after``; ``dropped``, ``ended`` (why, or empty), ``seconds_left``.

        ControlRefused ``unknown`` for a trace that was not read for 15 s.
        """
        return self.call("traced", {"trace": trace, "after": after})

    def untrace(self, trace: str) -> None:
        """End a trace."""
        self.call("untrace", {"trace": trace})

    def health(self) -> Answer:
        """Return ``ready``, and ``reasons`` by name why clients should not be sent there."""
        return self.call("health")

    def drain(self, per_second: int = 0, servers: Sequence[Sequence[Any]] = ()) -> Answer:
        """Refuse newcomers and send clients to ``[url, weight]`` elsewhere; ``clients``: how many there are.

        0 and an empty list stand for the node's own settings.
        """
        return self.call("drain", {"per_second": per_second, "servers": servers})

    def undrain(self) -> Answer:
        """Accept again; who has not been told to go stays. ``clients`` as above."""
        return self.call("undrain")

    def reload(self) -> Answer:
        """Read certificates, keys and addresses anew; ``errors``: what could not be used and stays as it was."""
        return self.call("reload")

    def rules_begin(self, generation: int) -> Answer:
        """Start a full set of rights beside the one in force."""
        return self.call("rules_begin", {"generation": generation})

    def rules_chunk(
        self,
        rules: Sequence[Answer] = (),
        users: Sequence[Answer] = (),
        sessions: Sequence[Answer] = (),
        options: Sequence[Answer] = (),
    ) -> Answer:
        """Add to the set that was begun: at most 1000 of each (protocol.md 8.2, 8.3)."""
        return self.call("rules_chunk", {"rules": rules, "users": users, "sessions": sessions, "options": options})

    def rules_commit(self, generation: int) -> Answer:
        """Put the set of rules that was begun in force."""
        return self.call("rules_commit", {"generation": generation})

    def rules_diff(
        self,
        after: int,
        generation: int,
        rules: Sequence[Answer] = (),
        removed: Iterable[int] = (),
        users: Sequence[Answer] = (),
        sessions: Sequence[Answer] = (),
        options: Sequence[Answer] | None = None,
    ) -> Answer:
        """Change the set in force; ControlRefused ``stale`` when that is not of generation ``after``.

        ``options`` are all rows that there are from now on; None: they stay as they are.
        """
        return self.call(
            "rules_diff",
            {
                "after": after,
                "generation": generation,
                "rules": rules,
                "removed": list(removed),
                "users": users,
                "sessions": sessions,
                "options": options,
            },
        )

    def rights(self, trouble: str = "", triggers_missing: int = 0) -> Answer:
        """Say, several times a second, whether changes of rights are followed, and why not (protocol.md 8.17)."""
        return self.call("rights", {"trouble": trouble, "triggers_missing": triggers_missing})

    def call(self, verb: str, arguments: Answer | None = None, deadline: float | None = None) -> Answer:
        """Ask for a verb and wait for its answer."""
        now = time.monotonic()
        end = now + self._timeout if deadline is None else min(deadline, now + self._timeout)
        if not self._lock.acquire(timeout=max(0.0, end - now)):
            raise SidecarBusy(self.path, f"calls before this one, which was not sent, took all of {self._timeout:g} s")
        try:
            return self._call(verb, arguments or {}, end)
        finally:
            self._lock.release()

    def _call(self, verb: str, arguments: Answer, end: float) -> Answer:
        self._number += 1
        request = pack([self._number, verb, arguments])
        if len(request) - 4 > FRAME_BYTES_MAX:
            raise ControlRefused("too_large", f"{len(request)} bytes pass the bound of {FRAME_BYTES_MAX}")
        asked_at = time.monotonic()
        try:
            answer = self._exchange(request, end)
        except TimeoutError:
            self._drop()
            # Who had hardly any time is not blamed for it.
            kind = SidecarSilent if time.monotonic() - asked_at >= self._timeout / 2 else SidecarBusy
            raise kind(self.path, f"no answer within {self._timeout:g} s") from None
        except (OSError, BadFrame) as error:
            self._drop()
            raise SidecarUnavailable(self.path, getattr(error, "strerror", None) or str(error)) from None
        except BaseException:
            # Interrupted half-way: what is still to come would be taken for the answer to the next request.
            self._drop()
            raise
        match answer:
            case [_, "ok", dict(values)]:
                return values
            case [_, "error", {"code": str(code), "reason": str(reason)}]:
                raise ControlRefused(code, reason)
        raise SidecarUnavailable(self.path, f"it gave no answer of the control protocol: {str(answer)[:80]}")

    def _exchange(self, request: bytes, end: float) -> list[Any]:
        connection = self._connection(end)
        _send(connection, request, end)
        unpacker = Unpacker(ANSWER_BYTES_MAX)
        while True:
            for answer in unpacker.feed(self._receive(connection, end)):
                if not answer or answer[0] != self._number:
                    raise BadFrame("an answer to something else")
                return cast(list[Any], answer)
            if unpacker.error is not None:
                raise unpacker.error

    def _receive(self, connection: socket.socket, end: float) -> bytes:
        """Return the next bytes; raise OSError, also when the connection has ended, and TimeoutError."""
        while True:
            pending = isinstance(connection, ssl.SSLSocket) and connection.pending()
            if not pending and not self._readable.poll(_left(end) * 1000):
                raise TimeoutError
            try:
                data = connection.recv(1 << 18)
            except _LATER:
                continue
            if not data:
                raise ConnectionResetError("the sidecar closed the connection")
            return data

    def _connection(self, end: float) -> socket.socket:
        """Return the open connection, or a new one where it is another process's (after a fork) or the sidecar has
        closed it.

        A connection on which bytes or the end have arrived although nothing was asked is over.
        """
        if self._socket is not None and (self._owner != os.getpid() or self._readable.poll(0)):
            self._drop()
        if self._socket is None:
            self._socket = connect_control(self.path, _left(end))
            self._owner = os.getpid()
            # A time-out of the socket itself would be set, and looked after, by the kernel at each step.
            self._socket.setblocking(False)
            self._readable = select.poll()
            self._readable.register(self._socket, select.POLLIN)
        return self._socket

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()


def _send(connection: socket.socket, request: bytes, end: float) -> None:
    """Send the whole request; raise OSError, and TimeoutError at ``end``."""
    view = memoryview(request)
    while view:
        try:
            view = view[connection.send(view) :]
        except _LATER as error:
            waiter = select.poll()
            waiter.register(connection, select.POLLIN if isinstance(error, ssl.SSLWantReadError) else select.POLLOUT)
            if not waiter.poll(_left(end) * 1000):
                raise TimeoutError from None


def _left(end: float) -> float:
    """Return the seconds until ``end`` as a time to wait for a socket: never so few that the socket is not looked
    at."""
    return max(0.001, end - time.monotonic())


def _without_none(**arguments: Any) -> Answer:
    return {name: value for name, value in arguments.items() if value is not None}


def _given(**arguments: Any) -> Answer:
    """Return the arguments that are not empty, by name."""
    return {name: value for name, value in arguments.items() if value}
