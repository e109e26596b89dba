"""The subscriptions of a client: how they are asked for, and what the server's answers and messages mean; pure.

protocol.md 3.2, 3.3, 3.8, 4.2, 4.7, 4.8, 4.13 and 5. ``subscription_set.py`` holds what is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.limits import COMMAND_BYTES_LEAST
from fastpath.core.protocol.subject import is_wildcard

from ..arguments import NUMBER_MAX
from ..errors import refusal
from ..message import Position, Status, message_of
from .events import Answered, Arrived, Event, SubscriptionRefused
from .subscription_set import (
    NOTHING,
    ClientSubscription,
    Pattern,
    SubscriptionRequest,
    SubscriptionSet,
    Wish,
    frames,
    requests,
)

RETRY_MS = 1000
"""Milliseconds before a subject is asked for again whose answer ``not_ready`` named no pause."""

RETRY_SECONDS_MAX = 30
"""Seconds up to which that pause doubles."""

BYTES_PER_CHAR = 6
"""Bytes on the wire that a character of a name becomes at most, as JSON escapes it."""

_STORED = ("snapshot", "historical", "recovered")


class ClientSubscriptions:
    """The subscriptions of one client; ``send`` gives a command its number and sends it, ``fits`` tests its size for
    the server."""

    def __init__(
        self,
        send: Callable[[Callable[[int], wire.AnyCommand]], int],
        fits: Callable[[wire.AnyCommand], bool] = lambda _: True,
    ) -> None:
        self.wanted = SubscriptionSet()
        self._send = send
        self._fits = fits
        self._open = False
        self._sids: dict[int, ClientSubscription] = {}
        self._asked: dict[int, Sequence[ClientSubscription | Pattern]] = {}

    # The connection.

    def open(self) -> None:
        """Ask for everything from where it was: a connection stands."""
        self._open = True
        self._ask(wanted for wanted in self.wanted.subjects.values() if wanted.plain)
        self._ask_patterns(self.wanted.patterns.values())

    def lose(self) -> None:
        """Forget the ids of subjects and commands of the connection, which is gone."""
        self._open = False
        self._sids.clear()
        self._asked.clear()
        self.wanted.lose()

    # Commands.

    def subscribe(
        self,
        owner: Any,
        subjects: Iterable[str],
        history: int = 0,
        conflation: int = 0,
        since: Mapping[str, tuple[int, int]] | None = None,
        slow: str = "close",
    ) -> None:
        """Want subjects and patterns for an owner, beside those who want them already."""
        positions = {name: Position(*position) for name, position in (since or {}).items()}
        wish = Wish(conflation, slow)
        plain: list[ClientSubscription] = []
        patterns: list[Pattern] = []
        for name in subjects:
            if not is_wildcard(name):
                before = self.wanted.subjects.get(name)
                wanted, asks = self.wanted.put(name, owner, history, wish, positions.get(name))
                if before is not None and before is not wanted:
                    self._unname(before)
                plain += [wanted] if asks else []
                continue
            pattern = self.wanted.patterns.get(name)
            if pattern is not None and pattern.wishes.keys() - {owner}:
                more, anew = self.wanted.join_pattern(pattern, owner, history, wish, positions)
                plain += more
                patterns += [pattern] if anew else []
                continue
            if pattern is not None:
                self._forget(pattern)
            patterns.append(Pattern(name, {owner: wish}, history, conflation, slow, name in positions))
            self.wanted.put_pattern(patterns[-1], positions)
        self._ask(plain)
        self._ask_patterns(patterns)

    def unsubscribe(self, subjects: Iterable[str], owner: Any = None) -> list[int]:
        """Want subjects and patterns no more, for one owner or for all.

        The ids of the commands, none while there is no connection and where others want them still.
        """
        ended = []
        names = list(subjects)
        for name in names:
            wanted = self.wanted.get(name)
            leaving = [one for one in self.wanted.owners(name) if owner is None or one == owner]
            if wanted is None or not leaving or all(self.wanted.leave(wanted, one) for one in leaving):
                continue
            ended.append(name)
            for gone in self.wanted.forget(wanted):
                self._unname(gone)
                if gone.held and gone is not wanted:
                    ended.append(gone.subject)
            if isinstance(wanted, ClientSubscription):
                wanted.held = False
        ids = []
        for some in frames(ended, self._ends) if self._open else ():
            ids.append(self._send(lambda number, some=some: wire.Unsubscribe(id=number, subjects=some)))  # type: ignore[misc]
        self._lead_in_next(names)
        return ids

    def ask_again(self, names: Iterable[str]) -> None:
        """Ask once more for those that the server has not begun, and will not begin by itself."""
        left = [wanted for wanted in map(self.wanted.get, names) if wanted is not None and not wanted.live]
        self._ask(wanted for wanted in left if isinstance(wanted, ClientSubscription) and wanted.plain)
        self._ask_patterns(wanted for wanted in left if isinstance(wanted, Pattern))

    # What arrives.

    def message(self, data: wire.Data, base: int) -> list[Event]:
        """Take a message (protocol.md 5); its time counts from ``base``."""
        wanted = self._sids.get(data.sid)
        if wanted is None:
            return []
        kind, seq, by = data.meta.kind, data.seq, (True, True)
        if kind in _STORED:
            if not wanted.live:
                return []
            if kind == "recovered" and not wanted.private and self._beyond(wanted, seq):
                return self._gap(wanted, seq)
            by = self._stored_came(wanted, kind, seq)
            self._pay(wanted)
        elif seq:
            if not wanted.live:
                return []
            if wanted.stored:
                wanted.stored_over()
                self._pay(wanted)
            if self._beyond(wanted, seq):
                return self._gap(wanted, seq)
            by = wanted.read(seq)
        hearers = self.wanted.hearers(wanted, *by) if any(by) else ()
        if wanted.waiting:
            self._lead_in(wanted)
        if not hearers:
            return []
        message = message_of(data, wanted.subject, wanted.epoch, base)
        return [Arrived(owner, message) for owner in hearers]

    @staticmethod
    def _beyond(wanted: ClientSubscription, seq: int) -> bool:
        """Return True when messages are missing before this one that should be there."""
        last, whole = wanted.last, not wanted.interval and not wanted.lagging
        return whole and last is not None and seq > last.seq + 1 and wanted.epoch >= last.epoch

    @staticmethod
    def _stored_came(wanted: ClientSubscription, kind: str, seq: int) -> tuple[bool, bool]:
        """Count a stored message; whether the owner and whether the others get it."""
        by = True, not wanted.private
        if kind != "snapshot" and seq:
            by = wanted.read(seq, anew=kind == "historical")
        if any(by):
            wanted.stored -= 1
            if wanted.stored <= 0:
                wanted.stored_over()
        return by

    def _gap(self, wanted: ClientSubscription, seq: int) -> list[Event]:
        """Ask again from the last message that was read, as messages are missing (protocol.md 5.3)."""
        last = wanted.last.seq if wanted.last else 0
        wanted.interrupt()
        wanted.live = False
        # What a pattern found is asked for by its own name: to ask for the pattern again would begin all of it anew.
        wanted.held = wanted.held or not wanted.wishes
        self._ask([wanted])
        return [Status(name="gap", subject=wanted.subject, reason=f"{last} was followed by {seq}")]

    def _pay(self, wanted: ClientSubscription) -> None:
        """Ask for what an owner is owed, when nothing is still to come for the others."""
        if wanted.owed and not wanted.stored:
            wanted.owed = False
            self._ask([wanted])

    def _lead_in_next(self, left: Iterable[str]) -> None:
        """Ask for those whose turn has come because others have left these names."""
        for name in left:
            pattern = is_wildcard(name)
            one = self.wanted.subjects.get(name)
            for wanted in list(self.wanted.subjects.values()) if pattern else [one] if one else []:
                self._lead_in(wanted)

    def _lead_in(self, wanted: ClientSubscription) -> None:
        """Ask for those who wait for their turn, when it has come."""
        if wanted.waiting and self.wanted.next(wanted):
            self._ask([wanted])

    def _unname(self, wanted: ClientSubscription) -> None:
        """Free the subscription's id. After a reconnection the number may already be another subject's."""
        if self._sids.get(wanted.sid) is wanted:
            del self._sids[wanted.sid]

    def subscribed(self, frame: wire.Subscribed) -> list[Event]:
        """Take an answer to ``subscribe``, or a subscription that begins by itself (protocol.md 4.2)."""
        number = 0 if frame.id is UNSET else frame.id
        self._asked.pop(number, None)
        return [event for result in frame.results for event in self._result(number, result)]

    def _result(self, number: int, result: wire.Result) -> list[Event]:
        pattern = self.wanted.patterns.get(result.subject)
        if pattern is not None:
            return self._pattern_result(number, result, pattern)
        wanted = self.wanted.subjects.get(result.subject)
        if wanted is None and not number and not result.error:
            wanted = self.wanted.find(result.subject, held=not result.pattern)
        if wanted is None or (number and number != wanted.asked):
            return []
        if result.error in ("denied", "not_ready"):
            return self._waits(wanted, result)
        if result.error:
            return self._refused(wanted, result.error, result.reason)
        if result.sid is UNSET:
            return []
        self._unname(wanted)
        self._sids[result.sid] = wanted
        granted = wanted.waits and not number
        # To a client that has read none of it, only what goes back to the first message is recovered.
        anew = wanted.position is None and result.pattern and not result.conflation and result.seq != result.messages
        recovery = "resynchronised" if anew and result.recovery else result.recovery
        self.wanted.begin(wanted, result, own=bool(number) or not result.pattern, asked=bool(number))
        self._pay(wanted)
        self._lead_in(wanted)
        name = recovery or "subscribed"
        told: list[Event] = [Status(name=name, subject=wanted.subject, pattern=result.pattern)]
        by = self.wanted.patterns.get(result.pattern)
        if by is not None and not by.live:
            told = [*self._pattern_result(by.asked, wire.Result(subject=by.subject), by), *told]
        return [Status(name="granted", subject=wanted.subject), *told] if granted else told

    def _pattern_result(self, number: int, result: wire.Result, pattern: Pattern) -> list[Event]:
        """Take the answer for a pattern; the subjects that the pattern finds follow by themselves (protocol.md 3.8)."""
        if number and number != pattern.asked:
            return []
        if result.error in ("denied", "not_ready"):
            return self._waits(pattern, result)
        if result.error and pattern.live and not number:
            return [Status(name="limited", subject=pattern.subject, reason=result.reason)]
        if result.error:
            return self._refused(pattern, result.error, result.reason)
        before, name = pattern.rights, pattern.subject
        pattern.begin(result.rights)
        if result.rights == "denied":
            return [Status(name="denied", subject=name, pattern=name, reason=result.reason)]
        partial: list[Event] = []
        if result.rights:
            partial.append(Status(name="partial", subject=name, pattern=name, reason=result.reason))
        if not number and partial and before != "denied":
            return partial  # by itself the server tells only that rights have come or gone
        granted = Status(name="granted", subject=name)
        subscribed = Status(name="subscribed", subject=name, pattern=name)
        return [granted, subscribed, *partial] if before and not number else [subscribed, *partial]

    def _waits(self, wanted: ClientSubscription | Pattern, result: wire.Result) -> list[Event]:
        """Let a subscription wait for a right, with which it begins by itself.

        One that is not ready is asked for again as well, unless a pattern found it.
        """
        retry = 0.0
        if result.error == "not_ready" and (isinstance(wanted, Pattern) or wanted.plain):
            retry = min(RETRY_SECONDS_MAX, (result.retry_ms or RETRY_MS) / 1000 * 2.0**wanted.tries)
            wanted.tries = min(wanted.tries + 1, 64)
        if isinstance(wanted, ClientSubscription) and not wanted.plain and result.error == "denied":
            wanted.position = None
            self._forget(wanted)
        else:
            wanted.waits = True
        subject, pattern = wanted.subject, result.pattern
        return [Status(name=result.error, subject=subject, pattern=pattern, reason=result.reason, retry_seconds=retry)]

    def _refused(self, wanted: ClientSubscription | Pattern, code: str, reason: str) -> list[Event]:
        """Forget a subscription that the server refused, and tell its owners; those who had it before go on."""
        if (
            isinstance(wanted, ClientSubscription)
            and wanted.live
            and self.wanted.hearers(wanted, by_owner=False, by_others=True)
        ):
            owners = [owner for owner in wanted.owners if owner in wanted.wishes]
            for owner in list(wanted.owners):
                self.wanted.leave(wanted, owner)
            self._lead_in(wanted)
        else:
            owners = list(wanted.wishes)
            self._forget(wanted)
        if not owners:
            return [Status(name="limited", subject=wanted.subject, reason=reason)]
        return [SubscriptionRefused(owner, wanted.subject, refusal(code, reason)) for owner in owners]

    def epoch(self, frame: wire.Epoch) -> list[Event]:
        """Go on with a subject in another epoch (protocol.md 4.8)."""
        wanted = self._sids.get(frame.sid)
        if wanted is None:
            return []
        wanted.epoch = frame.epoch
        void = any(old is not None and old.seq > frame.seq for old in (wanted.position, wanted.own))
        for name in ("position", "own", "target"):
            old = getattr(wanted, name)
            if old is not None and old != NOTHING:
                # The number goes on over epochs; what was read above it is void (protocol.md 4.8).
                setattr(wanted, name, Position(frame.epoch, min(old.seq, frame.seq)))
        reason = "what was read last is void"
        told: list[Event] = [Status(name="resynchronised", subject=wanted.subject, reason=reason)] if void else []
        last = wanted.target or wanted.last
        return told + self._gap(wanted, frame.seq + 1) if last is not None and last.seq < frame.seq else told

    def lagging(self, frame: wire.Lagging | wire.CaughtUp) -> list[Event]:
        """Note that subscriptions are conflated from here on, or no more (protocol.md 4.13)."""
        told = [self._sids[sid] for sid in frame.sids if sid in self._sids]
        lagging = isinstance(frame, wire.Lagging)
        for wanted in told:
            wanted.lagging = lagging
        return [Status(name="lagging" if lagging else "caught_up", subject=wanted.subject) for wanted in told]

    def revoked(self, frame: wire.Revoked) -> list[Event]:
        """End subscriptions, as rights are gone or an operator has ended them (protocol.md 4.7)."""
        told: list[Event] = []
        for name in frame.subjects:
            pattern, wanted = self.wanted.patterns.get(name), self.wanted.subjects.get(name)
            if pattern is not None:
                pattern.end()
                told.append(Status(name="revoked", subject=name, pattern=name, reason=frame.reason))
            if wanted is None:
                continue
            self._unname(wanted)
            wanted.end()
            told.append(Status(name="revoked", subject=wanted.subject, reason=frame.reason))
        return told

    def error(self, frame: wire.Error) -> list[Event]:
        """Take an error (protocol.md 4.12) of a subscribe command or another."""
        if frame.id is UNSET:
            return [Status(name="error", reason=f"{frame.code}: {frame.reason}")]
        if frame.id not in self._asked:
            return [Answered(frame.id, frame)]
        events: list[Event] = []
        for wanted in self._asked.pop(frame.id):
            if wanted.asked == frame.id and self.wanted.has(wanted):
                events += self._refused(wanted, frame.code, frame.reason)
        return events

    # Inside.

    def _ask_patterns(self, patterns: Iterable[Pattern]) -> None:
        """Ask for patterns from where their subjects were read to; subjects too many for one are asked for by name."""
        for request, more in self.wanted.resumptions(patterns, self._asks) if self._open else ():
            self._ask(more)
            self._subscribe(request)

    def _ask(self, subscriptions: Iterable[ClientSubscription]) -> None:
        for request in requests(subscriptions, self._asks) if self._open else ():
            self._subscribe(request)

    def _subscribe(self, request: SubscriptionRequest) -> None:
        number = self._send(request.command)
        self._asked[number] = request.wanted
        for wanted in request.wanted:
            wanted.asked = number

    def _asks(self, request: SubscriptionRequest) -> bool:
        """Return True if the server takes a request of that size, under whatever number."""
        return request.chars * BYTES_PER_CHAR <= COMMAND_BYTES_LEAST or self._fits(request.command(NUMBER_MAX))

    def _ends(self, names: Sequence[str]) -> bool:
        return self._fits(wire.Unsubscribe(id=NUMBER_MAX, subjects=list(names)))

    def _forget(self, wanted: ClientSubscription | Pattern) -> None:
        for gone in self.wanted.forget(wanted):
            self._unname(gone)
