"""A client of the node in memory: the Python client's own state, and what has arrived for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastpath.client.errors import ConnectionRejected, Disconnected, refusal
from fastpath.client.message import Message, Position, Status
from fastpath.client.subscriber.events import Answered, Arrived, SubscriptionRefused
from fastpath.client.subscriber.state import ClientState
from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.errors import Refused as TokenRefused
from realtime.memory.node import FORM, Connection, MemoryNode

STATUSES_MAX = 10_000
"""Number of changes of status that are kept; a test that makes more looks at the last ones."""


class Surroundings(NamedTuple):
    """The functions by which a client asks something of those around it."""

    token: Callable[[], str]
    """A new token of its user."""
    arriving: Callable[[], None]
    """Function called ahead of everything: what is on its way is to arrive."""
    following: Callable[[], None]
    """Function called ahead of what depends on rights."""
    settling: Callable[[], None]
    """Function called when others may have something to read."""


class MemoryClient:
    """A client that gets what a page of this user would; ``user`` is empty for nobody."""

    def __init__(self, node: MemoryNode, user: str, around: Surroundings) -> None:
        self.user = user
        self._messages: list[Message] = []
        self._statuses: list[Status] = []
        self._node = node
        self._around = around
        self._state = ClientState(FORM, "memory/1")
        self._connection: Connection | None = None
        self._answers: dict[int, Any] = {}
        self._names: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<MemoryClient of {self.user or 'nobody'}: {len(self._messages)} messages>"

    # What a test does

    def subscribe(
        self,
        *subjects: str,
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | None = None,
        slow: str = "close",
    ) -> MemoryClient:
        """Subscribe to subjects or patterns, as the Python client does (protocol.md 3.2); returns this client.

        Raises Invalid or Limited for what can be none; a right that is missing is a status, ``denied``, and the
        subscription waits for it.
        """
        with self._ready():
            self._state.following.subscribe(self, subjects, history, conflation, since, slow)
            self._pump()
            self._around.settling()
        return self

    def unsubscribe(self, *subjects: str) -> None:
        """Hear no more of these."""
        with self._ready():
            self._state.following.unsubscribe(subjects)
            self._pump()
            self._around.settling()

    def publish(
        self,
        subject: str,
        content: str | bytes,
        fields: Mapping[str, str | bytes] | None = None,
        *,
        retained: bool = True,
        qos: str = "guaranteed",
        reply_to: str = "",
        replace: bool = False,
    ) -> Position:
        """Publish as this user's client; raises Denied, TooLarge or Invalid, or Disconnected."""
        return self._publish(subject, content, dict(fields or {}), "test", retained, qos, reply_to, replace=replace)

    def remove(self, subject: str, *, qos: str = "guaranteed") -> Position:
        """Remove the subject as this user's client; raises as ``publish``."""
        return self._publish(subject, "", {}, "test", qos=qos, removed=True)

    def _publish(self, *publication: Any, **more: Any) -> Position:
        with self._ready():
            if self._connection is None:
                raise Disconnected("this client is not connected")
            number = self._state.publish(*publication, **more)
            self._pump()
            self._around.settling()
            answer = self._answers.pop(number)
        if isinstance(answer, wire.Published) and answer.status == "ok":
            return Position(answer.epoch or 0, answer.seq or 0)
        raise refusal(getattr(answer, "status", "") or answer.code, answer.reason)

    def connect(self) -> MemoryClient:
        """Connect, and go on from where it was: what was missed is recovered. Raises ConnectionRejected."""
        with self._ready():
            if self._connection is not None:
                return self
            token = self._around.token()
            try:
                self._connection = self._node.connect(token)
            except TokenRefused as error:
                raise ConnectionRejected(int(error.code), error.reason) from None
            self._state.open(token)
            self._pump()
            self._around.settling()
        return self

    def disconnect(self) -> None:
        """Lose the connection; ``connect()`` goes on."""
        with self._ready():
            connection, self._connection = self._connection, None
            if connection is not None:
                self._node.disconnect(connection)
                self._state.lose()

    # What a test looks at

    @property
    def messages(self) -> list[Message]:
        """Messages that came since the beginning, or since ``take()``."""
        self._around.arriving()
        return list(self._messages)

    @property
    def statuses(self) -> list[Status]:
        """The client's words about its connection and subscriptions (``denied``, ``recovered`` …: python.md)."""
        self._around.arriving()
        return list(self._statuses)

    @property
    def connected(self) -> bool:
        """False after ``disconnect()``, and when the node has sent it away: a status ``disconnected`` says why."""
        self._around.arriving()
        return self._connection is not None

    def contents(self, subject: str = "") -> list[str | bytes]:
        """Return the contents of the messages, of one subject or of all."""
        return [message.content for message in self.messages if subject in ("", message.subject)]

    def take(self) -> list[Message]:
        """Return the messages that came since the last call."""
        found = self.messages
        self._messages.clear()
        return found

    def status(self, subject: str) -> str:
        """Return the last status of a subject's subscription: ``subscribed``, ``denied``, ``revoked`` …; empty:
        none."""
        self._around.arriving()
        return self._names.get(subject, "")

    def may_read(self, subject: str) -> bool:
        """Return True if the rules let this user read the subject now."""
        return self._may("subscribe", subject)

    def may_publish(self, subject: str) -> bool:
        """Return True if the rules let this user publish to the subject now."""
        return self._may("publish", subject)

    # What the node does

    def pump(self) -> bool:
        """Read what was written, and say what follows from that; whether there was anything."""
        return self._pump()

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Hold the node alone, when what was on its way has arrived, with the rights of now."""
        self._around.arriving()
        with self._node.lock:
            self._around.following()
            yield

    def _may(self, action: str, subject: str) -> bool:
        with self._ready():
            return not self._node.check(self._around.token(), action, subject)

    def _pump(self) -> bool:
        busy = False
        while (connection := self._connection) is not None:
            frames = self._state.take_out() if connection.closed is None else []
            for frame in frames:
                self._node.receive(connection, frame)
            arrived = connection.take()
            for frame in arrived:
                self._take(self._state.receive(frame))
            if connection.closed is not None:
                code, reason = connection.closed
                self._connection = None
                self._state.lose()
                self._take([Status(name="disconnected", code=code, reason=reason)])
            if not frames and not arrived:
                break
            busy = True
        return busy

    def _take(self, events: Iterable[Any]) -> None:
        for event in events:
            match event:
                case Arrived():
                    self._messages.append(event.message)
                case Answered():
                    self._answers[event.id] = event.answer
                    if len(self._answers) > STATUSES_MAX:
                        self._answers.pop(next(iter(self._answers)))
                case SubscriptionRefused():
                    raise event.error
                case Status():
                    self._statuses.append(event)
                    del self._statuses[:-STATUSES_MAX]
                    if event.subject:
                        self._names[event.subject] = event.name
