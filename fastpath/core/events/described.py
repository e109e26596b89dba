"""Events for readers that know nothing of the protocol: each message with its subject and position, each answer by its
name, and a cursor with every message (docs/reference/events.md).

What comes is the event stream that a client of the protocol gets (framing.py): rows with subject ids, answers.
What goes out says in each event all that it means:

Event                                       Comes of
connected                                   4.1: for whom, and how often at least something comes
message                                     a row: subject, content, fields, epoch, seq, time, kind
subscribed, recovered, resynchronised       a result of ``subscribed`` (protocol.md 4.2), by its ``recovery``
denied, not_ready, invalid, limit           a result with that error; denied also a pattern with those ``rights``
refused                                     ``error`` (4.12): ``error`` itself is what a browser calls a lost stream
epoch, revoked, lagging, caught_up          4.8, 4.7, 4.13, with subjects for ids
expiring, notice, and all others            as they are
close                                       the goodbye (7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from ..protocol.codec import SSE, decode_server
from ..protocol.messages import (
    AnyAnswer,
    Base,
    CaughtUp,
    Connected,
    Data,
    Epoch,
    Error,
    Lagging,
    Meta,
    Revoked,
    Subscribed,
)
from .cursor import CURSOR_BYTES_MAX, UNKNOWN, encode_cursor
from .framing import encode_event, split_events

_DATA = b"data: "
_ROOM = CURSOR_BYTES_MAX * 3 // 4
"""Bytes of positions that fit into a cursor, before they are made a text."""

_SAID = ("server", "user", "time", "ping_ms", "expires")
"""Names of what of ``connected`` (protocol.md 4.1) means something to a reader."""

_POSITION_BYTES = 12
"""About what a position takes beside its subject."""

_CHANGES_MAX = 64
"""Places that differ from those shared with the streams before: with more of them the shared ones are made anew."""


_NO_FIELDS, _EMPTY = msgspec.Raw(b"null"), msgspec.Raw(b"{}")


class _Row(msgspec.Struct, array_like=True, gc=False):
    """A message as it is on the wire (protocol.md 5.1); its content and fields stay as they are."""

    sid: int
    seq: int
    t: int
    content: msgspec.Raw
    fields: msgspec.Raw = _NO_FIELDS
    meta: Meta = msgspec.field(default_factory=Meta)


class _Described(msgspec.Struct, gc=False):
    """A message that says of itself all that there is to say."""

    subject: str
    content: msgspec.Raw
    fields: msgspec.Raw
    epoch: int
    seq: int
    time: int
    kind: str
    retained: bool | msgspec.UnsetType = msgspec.UNSET
    reply_to: str | msgspec.UnsetType = msgspec.UNSET
    closure: str | msgspec.UnsetType = msgspec.UNSET
    as_of: Any = msgspec.UNSET
    removed: bool | msgspec.UnsetType = msgspec.UNSET
    traceparent: str | msgspec.UnsetType = msgspec.UNSET


_rows = msgspec.json.Decoder(_Row).decode
_pack = msgspec.json.Encoder().encode


class _Place(NamedTuple):
    """The position of one subject of the stream: ``seq`` was sent last, None before anything was."""

    subject: str
    epoch: int
    seq: int | None
    conflated: bool
    lags: bool = False


class DescribedEvents:
    """The place of a stream: ``follow`` describes its next events, and gives the place behind them.

    ``asked`` are the subjects and patterns of the stream's request, ``since`` the positions that the request came with:
    of a subject that has not begun again yet they still hold. A place never changes, so that streams which stand at the
    same place are one, and what comes is described once for all of them (``Streams``).
    """

    __slots__ = ("__weakref__", "_changes", "_shared", "asked", "base", "count", "mark", "named", "since")

    def __init__(self, asked: Sequence[str], since: Mapping[str, tuple[int, int]]) -> None:
        self.asked = tuple(asked)
        self.since = since
        self.base = 0
        self._shared: dict[int, _Place] = {}
        """The places of all subjects; never changed, so that a step copies only what differs from it, ``_changes``."""
        self._changes: dict[int, _Place] = {}
        self.count = 0
        """Number of places that there are."""
        self.named = sum(len(subject.encode()) for subject in since if subject not in self.asked)
        """The bytes that subjects take which the request does not name."""
        self.mark = 0
        """One number for all places, in whatever order they came."""

    def follow(self, events: bytes) -> tuple[bytes, DescribedEvents]:
        """Return what the reader is sent of a piece of the stream, which begins and ends between two events, and the
        place behind it."""
        behind = DescribedEvents(self.asked, {})
        behind.base, behind.named, behind.mark, behind.count = self.base, self.named, self.mark, self.count
        behind._shared, behind._changes, behind.since = self._shared, self._changes.copy(), self.since
        described = b"".join([part for event in split_events(events) for part in behind._event(event)])
        if len(behind._changes) > _CHANGES_MAX:
            behind._shared, behind._changes = behind._places(), {}
        return described, behind

    def same(self, other: DescribedEvents) -> bool:
        """Return whether both stand at the same place of the same stream."""
        return (
            self.mark == other.mark
            and self.base == other.base
            and self.asked == other.asked
            and self.since == other.since
            and self._places() == other._places()
        )

    def _event(self, event: bytes) -> Sequence[bytes]:
        if not event.startswith(_DATA):
            return (event,)  # a comment, or the goodbye
        payload = event[len(_DATA) : -2]
        if payload[:1] == b"[":
            return self._message(payload)
        answer = decode_server(payload, SSE)
        return () if isinstance(answer, Data) else self._answer(answer)

    def _places(self) -> dict[int, _Place]:
        return self._shared | self._changes

    def _place(self, sid: int) -> _Place | None:
        return self._changes.get(sid) or self._shared.get(sid)

    def _put(self, sid: int, place: _Place) -> None:
        before = self._place(sid)
        if before is not None:
            self.mark ^= hash((sid, before))
        else:
            self.count += 1
        self.mark ^= hash((sid, place))
        self._changes[sid] = place

    def _message(self, payload: bytes) -> Sequence[bytes]:
        sid = int(payload[1 : payload.index(b",")])
        place = self._place(sid)
        if place is None:
            return ()  # of a subscription that has ended
        seq, kind, described = _described(payload, place.subject, place.epoch, self.base)
        told: tuple[bytes, ...] = ()
        if seq and place.seq is not None and kind in ("update", "recovered"):
            if seq <= place.seq:
                return ()  # it has been sent
            if seq > place.seq + 1 and not (place.conflated or place.lags):
                told = (_named("resynchronised", {"subject": place.subject, "reason": "messages are missing"}),)
        if seq:
            self._put(sid, place._replace(seq=seq))
        return (*told, encode_event(described, cursor=self._cursor()))

    def _cursor(self) -> str:
        """Return where the reader stands with all that it has been sent."""
        if self.named + _POSITION_BYTES * (self.count + len(self.since)) > _ROOM:
            return UNKNOWN
        positions = {
            place.subject: (place.epoch, place.seq) for place in self._places().values() if place.seq is not None
        }
        return encode_cursor({**self.since, **positions} if self.since else positions, self.asked)

    def _answer(self, answer: AnyAnswer) -> Sequence[bytes]:
        match answer:
            case Base():
                self.base = answer.base
                return ()
            case Connected():
                self.base = answer.base
                content = msgspec.to_builtins(answer)
                return (_named("connected", {name: content[name] for name in _SAID if name in content}),)
            case Subscribed():
                return self._results(answer)
            case Epoch():
                return self._epoch(answer)
            case Revoked():
                return (_named("revoked", {"subjects": answer.subjects, "reason": answer.reason}),)
            case Lagging() | CaughtUp():
                return self._lagging(answer.sids, lags=isinstance(answer, Lagging))
            case Error():
                return (_named("refused", {"code": answer.code, "reason": answer.reason}),)
        content = msgspec.to_builtins(answer)
        return (_named(content.pop("op"), content),)

    def _results(self, answer: Subscribed) -> Sequence[bytes]:
        """Return what became of each subject; its id is the reader's no business.

        The last result has a cursor: a reader that goes before the first message comes back to there, or it would not
        hear what it missed.
        """
        told: list[tuple[bytes, str]] = []
        for one in answer.results:
            result: dict[str, Any] = msgspec.to_builtins(one)
            error, recovery = result.pop("error", ""), result.pop("recovery", "")
            if result.get("rights") == "denied":  # of a pattern; a part of it is told by the key alone
                error = result.pop("rights")
            sid = result.pop("sid", None)
            if sid is not None:
                self._begin(sid, result, recovery)
            told.append((_pack(result), error or recovery or "subscribed"))
        last = len(told) - 1
        return [
            encode_event(content, name, self._cursor() if at == last else "") for at, (content, name) in enumerate(told)
        ]

    def _begin(self, sid: int, result: dict[str, Any], recovery: str) -> None:
        subject, epoch, seq = result["subject"], result["epoch"], result["seq"]
        before = self._place(sid)
        if subject in self.since:
            self.since = {other: place for other, place in self.since.items() if other != subject}
        elif before is None and subject not in self.asked:
            self.named += len(subject.encode())
        at: int | None = seq
        if recovery == "recovered":
            at = seq - result.get("messages", 0)
        elif result.get("messages"):
            at = None
        self._put(sid, _Place(subject, epoch, at, "conflation" in result))

    def _epoch(self, answer: Epoch) -> Sequence[bytes]:
        place = self._place(answer.sid)
        if place is None:
            return ()
        void = place.seq is not None and place.seq > answer.seq
        self._put(answer.sid, place._replace(epoch=answer.epoch, seq=answer.seq if void else place.seq))
        content = {"subject": place.subject, "epoch": answer.epoch, "seq": answer.seq}
        told = [encode_event(_pack(content), "epoch", self._cursor())]
        if void:
            told.append(_named("resynchronised", {"subject": place.subject, "reason": "what was read last is void"}))
        return told

    def _lagging(self, sids: Sequence[int], *, lags: bool) -> Sequence[bytes]:
        subjects = []
        for sid in sids:
            place = self._place(sid)
            if place is not None:
                subjects.append(place.subject)
                self._put(sid, place._replace(lags=lags))
        return (_named("lagging" if lags else "caught_up", {"subjects": subjects}),)


class Streams:
    """The places at which streams of one process stand, each once however many stand there."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: WeakValueDictionary[tuple[tuple[str, ...], int, int], DescribedEvents] = WeakValueDictionary()

    def follow(self, at: DescribedEvents, events: bytes) -> tuple[bytes, DescribedEvents]:
        """Follow events as ``DescribedEvents.follow`` does, to the one object that stands for the place behind them."""
        described, behind = at.follow(events)
        found = self._places.setdefault((behind.asked, behind.base, behind.mark), behind)
        return described, behind if found is behind or not found.same(behind) else found


def _named(name: str, content: dict[str, Any]) -> bytes:
    return encode_event(_pack(content), name)


@lru_cache(maxsize=64)
def _described(payload: bytes, subject: str, epoch: int, base: int) -> tuple[int, str, bytes]:
    """Return a row's number and kind, and the message described; many readers get the same one, one after another."""
    row = _rows(payload)
    meta = row.meta
    described = _Described(
        subject,
        row.content,
        _EMPTY if bytes(row.fields) == b"null" else row.fields,
        epoch,
        row.seq,
        base + row.t,
        meta.kind or "update",
    )
    if not meta.retained:
        described.retained = False
    if meta.reply_to:
        described.reply_to = meta.reply_to
    if meta.closure:
        described.closure = meta.closure
    if meta.as_of is not None:
        described.as_of = meta.as_of
    if meta.removed:
        described.removed = True
    if meta.traceparent:
        described.traceparent = meta.traceparent
    return row.seq, described.kind, _pack(described)
