"""The protocol as the client sees it, without I/O or clock: bytes in, events and bytes out (protocol.md 3 to 5).

It knows which subjects are wanted, how far each was read, and how to ask for what is missing. It outlives
connections: ``open()`` begins one, ``lose()`` ends it. What is to be sent gathers in ``out``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from fastpath.core import codec
from fastpath.core import messages as wire
from fastpath.core.messages import GUARANTEED, Fields, Value

from .errors import refusal
from .events import Answered, Arrived, Event, Named, Refused
from .message import Position, Status, message_of

CLIENT = "py/1"
SUBJECTS_PER_COMMAND = 500
"""Half of what a server takes, so that a command with positions stays within its frame."""

RETRY_MS = 1000
"""Pause before a subject is asked for again whose answer ``not_ready`` named none."""

RETRY_SECONDS_MAX = 30
"""That pause doubles up to this."""

_STORED = ("snapshot", "historical", "recovered")


@dataclass(slots=True, eq=False)
class Subscription:
    """One subject that is wanted; ``owner`` gets its messages. While it is ``lagging`` gaps are no fault (5.3); while
    it ``waits`` the server has not begun it.

    ``position`` is the last that was read. While ``stored`` messages are still to come it lags behind
    ``target``, where live messages begin, so that a connection lost between them misses nothing.
    """

    subject: str
    owner: Any
    history: int
    conflation: int
    slow: str
    position: Position | None
    asked: int = 0
    live: bool = False
    waits: bool = False
    tries: int = 0
    lagging: bool = False
    sid: int = -1
    epoch: int = 0
    stored: int = 0
    target: Position | None = None


class ClientState:
    """The state of one client over all its connections."""

    def __init__(self, form: codec.Form, client: str = CLIENT, publisher: str = "") -> None:
        self._client = client
        self._publisher = publisher
        self.form: codec.Form = form
        self.out: list[bytes] = []
        self.subscriptions: dict[str, Subscription] = {}
        self.user = ""
        self.server = ""
        self.ping_ms = 0
        self._base = 0
        self._id = 0
        self._open = False
        self._sids: dict[int, Subscription] = {}
        self._asked: dict[int, list[Subscription]] = {}

    # The connection.

    def open(self, token: str, form: codec.Form | None = None) -> None:
        """A connection stands: say who we are and ask for all subjects from where they were."""
        self.form = form or self.form
        self.out.clear()
        self._open = True
        self._send(wire.Connect(id=self._next(), token=token, client=self._client, publisher=self._publisher))
        self._ask(self.subscriptions.values())

    def lose(self) -> None:
        """The connection is gone; ids of subjects and commands mean nothing any more."""
        self.out.clear()
        self._open = False
        self._sids.clear()
        self._asked.clear()
        for wanted in self.subscriptions.values():
            wanted.live = wanted.waits = wanted.lagging = False
            wanted.tries = 0

    def take_out(self) -> list[bytes]:
        """What is to be sent now."""
        frames, self.out = self.out, []
        return frames

    # Commands: each answers its id.

    def subscribe(
        self,
        owner: Any,
        subjects: Iterable[str],
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | None = None,
        slow: str = "close",
    ) -> list[tuple[Any, str]]:
        """Want subjects for an owner; answers the (owner, subject) pairs that this takes over."""
        replaced = []
        wanted = []
        for subject in subjects:
            old = self.subscriptions.get(subject)
            if old is not None:
                self._unname(old)
                if old.owner is not owner:
                    replaced.append((old.owner, subject))
            position = since.get(subject) if since else None
            new = Subscription(subject, owner, history, conflation, slow, Position(*position) if position else None)
            self.subscriptions[subject] = new
            wanted.append(new)
        self._ask(wanted)
        return replaced

    def unsubscribe(self, subjects: Iterable[str]) -> list[int]:
        """Want subjects no more; the ids of the commands, none while there is no connection."""
        gone = [subject for subject in subjects if subject in self.subscriptions]
        for subject in gone:
            self._forget(self.subscriptions[subject])
        ids = []
        for start in range(0, len(gone) if self._open else 0, SUBJECTS_PER_COMMAND):
            ids.append(self._next())
            self._send(wire.Unsubscribe(id=ids[-1], subjects=gone[start : start + SUBJECTS_PER_COMMAND]))
        return ids

    def ask_again(self, subjects: Iterable[str]) -> None:
        """Ask once more for those that the server has not begun."""
        known = (self.subscriptions.get(subject) for subject in subjects)
        self._ask(wanted for wanted in known if wanted is not None and not wanted.live)

    def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None,
        closure: str,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str = "",
        publication: int = 0,
    ) -> int:
        """Publish one message, now."""
        number = self._next()
        self._send(
            wire.Publish(
                id=number,
                subject=subject,
                content=content,
                fields=fields or {},
                retained=retained,
                qos=qos,
                reply_to=reply_to,
                closure=closure,
                publication=publication,
            )
        )
        return number

    def renew(self, token: str) -> int:
        """Renew the token of the live connection."""
        number = self._next()
        self._send(wire.Token(id=number, token=token))
        return number

    def ping(self) -> int:
        """Ask for a sign of life."""
        number = self._next()
        self._send(wire.Ping(id=number))
        return number

    # What arrives.

    def receive(self, data: bytes) -> list[Event]:
        """Take in one frame; raises BadFrame."""
        frame = codec.decode_server(data, self.form)
        if isinstance(frame, wire.Data):
            return self._message(frame)
        match frame:
            case wire.Connected():
                self.user = frame.user or ""
                self.server, self._base, self.ping_ms = frame.server, frame.base, frame.ping_ms
                return [Answered(frame.id, frame)]
            case wire.Base():
                self._base = frame.base
                return []
            case wire.Subscribed():
                number = 0 if frame.id is UNSET else frame.id
                self._asked.pop(number, None)
                return [event for result in frame.results for event in self._result(number, result)]
            case wire.Epoch():
                return self._epoch(frame)
            case wire.Revoked():
                return [
                    self._revoked(subject, frame.reason) for subject in frame.subjects if subject in self.subscriptions
                ]
            case wire.Lagging() | wire.CaughtUp():
                return self._lagging(frame)
            case wire.Expiring():
                return [Status(name="expiring")]
            case wire.Notice():
                named: list[Event] = [Named(frame.servers)] if frame.servers else []
                return [*named, Status(name="notice", notice=frame.code, reason=f"{frame.code}: {frame.text}")]
            case wire.Error():
                return self._error(frame)
            case wire.Published() if frame.id is UNSET:
                return []
        return [Answered(frame.id, frame)]  # type: ignore[arg-type]

    def _message(self, data: wire.Data) -> list[Event]:
        wanted = self._sids.get(data.sid)
        if wanted is None:
            return []
        kind, seq = data.meta.kind, data.seq
        if kind in _STORED:
            if not wanted.live or (kind == "recovered" and self._seen(wanted, seq)):
                return []
            self._stored_came(wanted, kind, seq)
        elif seq:
            if not wanted.live:
                return []
            if wanted.stored:
                self._stored_over(wanted)
            if self._seen(wanted, seq):
                return []
            whole = not wanted.conflation and not wanted.lagging
            if whole and wanted.position is not None and seq > wanted.position.seq + 1:
                return self._gap(wanted, seq)
            wanted.position = Position(wanted.epoch, seq)
        return [Arrived(wanted.owner, message_of(data, wanted.subject, wanted.epoch, self._base))]

    @staticmethod
    def _seen(wanted: Subscription, seq: int) -> bool:
        return wanted.position is not None and (wanted.epoch, seq) <= wanted.position

    def _stored_came(self, wanted: Subscription, kind: str, seq: int) -> None:
        if kind != "snapshot" and seq:
            wanted.position = Position(wanted.epoch, seq)
        wanted.stored -= 1
        if wanted.stored <= 0:
            self._stored_over(wanted)

    @staticmethod
    def _stored_over(wanted: Subscription) -> None:
        wanted.stored = 0
        if wanted.target is not None:
            wanted.position, wanted.target = wanted.target, None

    def _gap(self, wanted: Subscription, seq: int) -> list[Event]:
        """Messages are missing: ask again from the last that was read (protocol.md 5.3)."""
        last = wanted.position.seq if wanted.position else 0
        self._ask([wanted])
        return [Status(name="gap", subject=wanted.subject, reason=f"{last} was followed by {seq}")]

    def _unname(self, wanted: Subscription) -> None:
        """Its id is no longer its own. After a reconnection the same number may be another subject's already."""
        if self._sids.get(wanted.sid) is wanted:
            del self._sids[wanted.sid]

    def _result(self, number: int, result: wire.Result) -> list[Event]:
        wanted = self.subscriptions.get(result.subject)
        if wanted is None or (number and number != wanted.asked):
            return []
        if result.error in ("denied", "not_ready"):
            wanted.waits = True
            retry = 0.0
            if result.error == "not_ready":
                retry = min(RETRY_SECONDS_MAX, (result.retry_ms or RETRY_MS) / 1000 * 2.0**wanted.tries)
                wanted.tries = min(wanted.tries + 1, 64)
            return [Status(name=result.error, subject=result.subject, reason=result.reason, retry_seconds=retry)]
        if result.error:
            self._forget(wanted)
            return [Refused(wanted.owner, wanted.subject, refusal(result.error, result.reason))]
        if result.sid is UNSET:
            return []
        self._unname(wanted)
        wanted.sid = result.sid
        self._sids[result.sid] = wanted
        wanted.live, wanted.lagging = True, False
        wanted.epoch = 0 if result.epoch is UNSET else result.epoch
        wanted.conflation = result.conflation if wanted.conflation else 0
        wanted.target = None if result.seq is UNSET else Position(wanted.epoch, result.seq)
        wanted.stored = result.messages
        if not wanted.stored:
            self._stored_over(wanted)
        granted = [Status(name="granted", subject=wanted.subject)] if wanted.waits and not number else []
        wanted.waits, wanted.tries = False, 0
        return [*granted, Status(name=result.recovery or "subscribed", subject=wanted.subject)]

    def _epoch(self, frame: wire.Epoch) -> list[Event]:
        wanted = self._sids.get(frame.sid)
        if wanted is None:
            return []
        wanted.epoch = frame.epoch
        void = False
        for name in ("position", "target"):
            old = getattr(wanted, name)
            if old is not None:
                # The number goes on over epochs; what was read above it is void (protocol.md 4.8).
                void = void or old.seq > frame.seq
                setattr(wanted, name, Position(frame.epoch, min(old.seq, frame.seq)))
        reason = "what was read last is void"
        told: list[Event] = [Status(name="resynchronised", subject=wanted.subject, reason=reason)] if void else []
        last = wanted.target or wanted.position
        return told + self._gap(wanted, frame.seq + 1) if last is not None and last.seq < frame.seq else told

    def _lagging(self, frame: wire.Lagging | wire.CaughtUp) -> list[Event]:
        """Subscriptions are conflated from here on, or no more (protocol.md 4.13)."""
        told = [self._sids[sid] for sid in frame.sids if sid in self._sids]
        lagging = isinstance(frame, wire.Lagging)
        for wanted in told:
            wanted.lagging = lagging
        return [Status(name="lagging" if lagging else "caught_up", subject=wanted.subject) for wanted in told]

    def _revoked(self, subject: str, reason: str) -> Status:
        wanted = self.subscriptions[subject]
        self._unname(wanted)
        wanted.live, wanted.waits, wanted.lagging = False, True, False
        wanted.position, wanted.target, wanted.stored = None, None, 0
        return Status(name="revoked", subject=subject, reason=reason)

    def _error(self, frame: wire.Error) -> list[Event]:
        if frame.id is UNSET:
            return [Status(name="error", reason=f"{frame.code}: {frame.reason}")]
        if frame.id not in self._asked:
            return [Answered(frame.id, frame)]
        events: list[Event] = []
        for wanted in self._asked.pop(frame.id):
            if wanted.asked == frame.id and self.subscriptions.get(wanted.subject) is wanted:
                self._forget(wanted)
                events.append(Refused(wanted.owner, wanted.subject, refusal(frame.code, frame.reason)))
        return events

    # Inside.

    def _ask(self, subscriptions: Iterable[Subscription]) -> None:
        """Send subscribe commands; subscriptions with the same options share one."""
        if not self._open:
            return
        groups: dict[tuple[int, int, str], list[Subscription]] = {}
        for wanted in subscriptions:
            # Who knows a position gets what follows it, not the history before it once more.
            history = 0 if wanted.position else wanted.history
            groups.setdefault((history, wanted.conflation, wanted.slow), []).append(wanted)
        for (history, conflation, slow), members in groups.items():
            for start in range(0, len(members), SUBJECTS_PER_COMMAND):
                some = members[start : start + SUBJECTS_PER_COMMAND]
                number = self._next()
                self._asked[number] = some
                since: dict[str, tuple[int, int]] = {}
                for wanted in some:
                    wanted.asked, wanted.live = number, False
                    if wanted.position:
                        since[wanted.subject] = wanted.position
                self._send(
                    wire.Subscribe(
                        id=number,
                        subjects=[wanted.subject for wanted in some],
                        history=history,
                        conflation=conflation,
                        slow=slow,
                        since=since,
                    )
                )

    def _forget(self, wanted: Subscription) -> None:
        self._unname(wanted)
        if self.subscriptions.get(wanted.subject) is wanted:
            del self.subscriptions[wanted.subject]

    def _send(self, command: wire.AnyCommand) -> None:
        self.out.append(codec.encode(command, self.form))

    def _next(self) -> int:
        self._id += 1
        return self._id
