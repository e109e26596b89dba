"""Reads the records of rights that Django sends, each by itself: one that cannot be read is left out, and is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..auth.rule_grants import RuleUser, Session
from ..auth.rules import BOTH, PUBLISH, SUBSCRIBE, Rule
from ..protocol.errors import InvalidMessage, InvalidSubject
from ..protocol.options import OptionRow, check_option_pattern
from ..protocol.subject import check_pattern

NAMED_MAX = 10
"""Records that are named in one text; the others are counted."""

REASON_CHARS_MAX = 200

_RULE, _USER, _SESSION, _OPTIONS = "rule", "user", "session", "options"
_KEYS = {_RULE: "id", _USER: "uid", _SESSION: "sid", _OPTIONS: "id"}

_MARK = "unreadable"
"""Name, in a record that stands for one which its sender could not read, of the reason."""

_TOLD = ("id", "allow")
"""Names of what is asked of a record that has the form of one and cannot be used all the same."""

_NEVER = (1 << 62) - 1
"""A generation that no token has."""

T = TypeVar("T")


class Fault(NamedTuple):
    """The reason why a record cannot be read; ``denies``: it may take a right away, which without it is still there."""

    reason: str
    denies: bool


Faults = dict[tuple[str, Any], Fault]
"""Faults by kind and key: ``("rule", 5)``."""


class Records(NamedTuple):
    """The part of some records that could be read, and the part that could not."""

    rules: list[Rule]
    users: list[RuleUser]
    sessions: list[Session]
    options: list[OptionRow] | None
    """Options of subjects; None: of these nothing was said."""
    faults: Faults


def read_records(rules: Any, users: Any, sessions: Any, options: Any = None) -> Records:
    """Read the records; raise InvalidMessage for what are no lists.

    A rule and options that cannot be read are not there: they allow nothing. A user who cannot be read is not active,
    and a session is revoked, if at least their keys can be read: what takes a right away is to do so.
    """
    faults: Faults = {}
    return Records(
        list(_each(_RULE, rules, Rule, faults, _check_rule)),
        list(_each(_USER, users, RuleUser, faults, otherwise=_inactive)),
        list(_each(_SESSION, sessions, Session, faults, otherwise=_revoked)),
        None if options is None else list(_each(_OPTIONS, options, OptionRow, faults, _check_options)),
        faults,
    )


class LeftOut:
    """The records of the set in force that could not be read."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults: Faults = {} if faults is None else faults

    @property
    def denying(self) -> int:
        """The number of left-out records that may have taken a right away."""
        return sum(fault.denies for fault in self.faults.values())

    def follow(self, records: Records, removed: Iterable[int]) -> dict[str, Fault]:
        """Let a difference take force; return by name what of it could not be read, and was not known to be so."""
        before = self.faults.copy()
        seen = [
            *((_RULE, number) for number in removed),
            *((_RULE, rule.id) for rule in records.rules),
            *((_USER, user.uid) for user in records.users),
            *((_SESSION, session.sid) for session in records.sessions),
        ]
        if records.options is not None:
            seen += [place for place in self.faults if place[0] == _OPTIONS]
        for place in seen:
            self.faults.pop(place, None)
        self.faults |= records.faults
        return _new(before, records.faults)

    def news(self, before: LeftOut) -> dict[str, Fault]:
        """Return by name what of this whole set could not be read, and was not known to be so in the one before."""
        return _new(before.faults, self.faults)

    def text(self) -> str:
        """Return what was left out and why, in words; empty without any."""
        if not self.faults:
            return ""
        # What may have denied something first: somebody may read what is not for them.
        order = sorted(self.faults.items(), key=lambda item: (not item[1].denies, str(item[0])))
        named = [f"{_name(place)} ({fault.reason})" for place, fault in order[:NAMED_MAX]]
        more = f" and {len(order) - NAMED_MAX} more" if len(order) > NAMED_MAX else ""
        denying = f"; {self.denying} of them may have denied something" if self.denying else ""
        return f"left out, as they cannot be read: {', '.join(named)}{more}{denying}"

    def chunks(self, size: int) -> Iterator[tuple[list[Any], list[Any], list[Any], list[Any]]]:
        """Yield the same as records that cannot be read, for a worker that is to know of them."""
        places = list(self.faults.items())
        for start in range(0, len(places), size):
            lists: dict[str, list[Any]] = {kind: [] for kind in _KEYS}
            for (kind, key), fault in places[start : start + size]:
                lists[kind].append({_KEYS[kind]: key, _MARK: fault.reason, "denies": fault.denies})
            yield lists[_RULE], lists[_USER], lists[_SESSION], lists[_OPTIONS]


def _new(before: Faults, now: Faults) -> dict[str, Fault]:
    return {_name(place): fault for place, fault in now.items() if before.get(place) != fault}


def _name(place: tuple[str, Any]) -> str:
    return f"{place[0]} {place[1]}" if place[1] != "" else f"a {place[0]} without a number"


def _each(
    kind: str,
    raw: Any,
    form: type[T],
    faults: Faults,
    check: Callable[[T], None] = lambda row: None,
    otherwise: Callable[[dict[str, Any], Any], T | None] = lambda record, key: None,
) -> Iterator[T]:
    """Yield the records that can be read, and what stands for those that cannot."""
    try:
        rows = msgspec.convert(raw, list[Any])
    except msgspec.ValidationError as error:
        raise InvalidMessage("invalid", f"records of kind {kind}: {error}") from None
    if not any(isinstance(record, dict) and _MARK in record for record in rows):
        # Else, and where one cannot be read, one by one.
        with suppress(msgspec.ValidationError, OverflowError):
            rows = msgspec.convert(raw, list[form])  # type: ignore[valid-type]
    for record in rows:
        try:
            if not isinstance(record, form):
                record = _convert(record, form)
            check(record)
        except (InvalidSubject, ValueError) as error:
            # Of a pattern the reason alone: anybody may read it (/readyz).
            reason = (error.reason if isinstance(error, InvalidSubject) else str(error))[:REASON_CHARS_MAX]
            given = record if isinstance(record, dict) else {name: getattr(record, name, None) for name in _TOLD}
            key = given.get(_KEYS[kind], "")
            key = "" if not isinstance(key, str | int) else str(key) if kind in (_USER, _SESSION) else key
            faults[kind, key] = Fault(reason, _denies(kind, given))
            if key != "" and (instead := otherwise(given, key)) is not None:
                yield instead
        else:
            yield record


def _denies(kind: str, record: dict[str, Any]) -> bool:
    """Return whether the record may have taken a right away, for all that is known."""
    if isinstance(record.get("denies"), bool):
        return bool(record["denies"])
    return kind in (_USER, _SESSION) or (kind == _RULE and record.get("allow") is not True)


def _convert(record: Any, form: type[T]) -> T:
    """Return the record in its form; raise ValueError where it has not that form."""
    if isinstance(record, dict) and _MARK in record:  # whoever sent it could not read it
        raise ValueError(str(record[_MARK]))
    try:
        return msgspec.convert(record, form)
    except (msgspec.ValidationError, OverflowError) as error:
        raise ValueError(str(error)) from None


def _check_rule(rule: Rule) -> None:
    """Check a rule; raise InvalidSubject, or ValueError, for one that nobody can decide by."""
    if rule.action not in (SUBSCRIBE, PUBLISH, BOTH):
        raise ValueError(f"action {rule.action!r}")
    check_pattern(rule.pattern)


def _check_options(row: OptionRow) -> None:
    check_option_pattern(row.pattern)


def _inactive(record: dict[str, Any], uid: Any) -> RuleUser:
    return RuleUser(str(uid), "", False, False, [], _generation(record))


def _revoked(record: dict[str, Any], sid: Any) -> Session:
    return Session(str(sid), _generation(record))


def _generation(record: dict[str, Any]) -> int:
    found = record.get("generation")
    return found if isinstance(found, int) and 0 < found < _NEVER else _NEVER
