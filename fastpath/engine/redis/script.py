"""The script that stores publications in Redis: what it is given, and what it answers (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, ResponseError

from ...core.broker.admission import Outcome
from ...core.protocol.messages import STANDARD, Message
from .entries import GONE, GROUPS, VERSION, group_of, parse_place, payload, typed

SCRIPT = Path(__file__).with_suffix(".lua").read_bytes()
SHA = hashlib.sha1(SCRIPT).hexdigest()  # noqa: S324  (how Redis names scripts)

REASONS = {
    b"stale": "older than what is remembered of the publisher's publications",
    b"out_of_order": "its number is not above the publisher's last, and was not stored before: numbers rise",
}

_encode = msgspec.msgpack.Encoder().encode


class Stored(NamedTuple):
    """The script's answer."""

    epoch: int
    time: int
    """Time in ms since 1970, of all messages that are new."""
    ends: dict[int, int]
    """The groups of the batch, and the number of the last entry of each in this epoch."""
    answers: list[int | bytes]


Known = Callable[[str], Iterable[str]]
"""Tells the names of the fields that a subject's snapshot has, as far as this node knows."""


def no_fields(subject: str) -> Iterable[str]:
    """Name no fields: ``Known`` of a node that knows nothing."""
    del subject
    return ()


def pack(
    messages: Sequence[Message], own: str, first: int, snapshots: bool, known: Known = no_fields
) -> tuple[bytes, bytes]:
    """Return the batch as the script takes it: its table and its bytes.

    Publications without a number of their publisher's, and those of standard quality, are numbered for the publisher
    ``own``: ``first``, ``first + 1``, … The fields that this node knows of a removed subject are named, once. Others
    that were there before the subject was replaced or removed for the first time stay behind: they are in no snapshot,
    and only take room.
    """
    used, subjects = _by_group(messages)
    index = {subject: at for at, subject in enumerate(subjects, 1)}
    publishers: dict[str, int] = {}
    rows: list[Any] = []
    parts: list[bytes] = []
    any_replaces = False
    named: set[str] = set()
    for message in messages:
        at = index[message.subject]
        publisher, number = message.publisher, message.publication
        if message.qos == STANDARD:
            at = -at
            number = 0
        if not number or publisher is None:
            publisher, number = own, first
            first += 1
        of = publishers.get(publisher)
        if of is None:
            of = publishers[publisher] = len(publishers) + 1
        data = payload(message)
        parts.append(data)
        size = 0
        fields: Any = False
        replaces: bool | list[str] = snapshots and message.replace
        if snapshots and message.removed:
            parts.append(GONE)
            size = len(GONE)
            replaces = True if message.subject in named else list(known(message.subject))
            named.add(message.subject)
        elif snapshots and message.retained:
            content = typed(message.content)
            parts.append(content)
            size = len(content)
            if message.fields:
                fields = []
                for name, value in message.fields.items():
                    part = typed(value)
                    parts.append(part)
                    fields += (name, len(part))
        rows += (at, len(data), size, fields, of, number, replaces)
        any_replaces = any_replaces or replaces is not False
    traces = {row: one.traceparent for row, one in enumerate(messages, 1) if one.traceparent is not None} or False
    table = (GROUPS, VERSION, used, subjects, list(publishers), rows, any_replaces, traces)
    return _encode(table), b"".join(parts)


def _by_group(messages: Sequence[Message]) -> tuple[list[int], list[str]]:
    """Return the groups with their numbers of subjects, and the subjects in that order."""
    by_group: dict[int, list[str]] = {}
    for subject in dict.fromkeys([message.subject for message in messages]):
        by_group.setdefault(group_of(subject), []).append(subject)
    used: list[int] = []
    subjects: list[str] = []
    for group, names in by_group.items():
        used += (group, len(names))
        subjects += names
    return used, subjects


def command(prefix: str, known: int, log_messages: int, packed: tuple[bytes, bytes], until: int = 0) -> tuple[Any, ...]:
    """Return the command that stores a batch which ``pack`` made, up to the time ``until`` (ms since 1970, on the clock
    of Redis; 0: at any time)."""
    return ("EVALSHA", SHA, 1, prefix, known, log_messages, until, *packed)


def read(answer: Any) -> Stored:
    """Read the script's answer."""
    epoch, time, ends, answers = answer
    return Stored(epoch, time, dict(zip(ends[::2], ends[1::2], strict=True)), answers)


class ScriptFault(Enum):
    """The way to handle a refusal of the script, which has then stored nothing."""

    CONNECT = "connect anew: it is no primary any more, or does not know the script"
    AGAIN = "send it again: it will pass"
    REFUSE = "tell the publishers"
    FOREIGN = "use another prefix: the data are of another version"


def late(error: ResponseError) -> int:
    """Return when (ms since 1970, on the clock of Redis) a batch was refused as late; 0 for another error."""
    word, _, rest = str(error).partition(" ")
    return int(rest.split(" ", 1)[0]) if word == "LATE" else 0


def fault(error: ResponseError) -> tuple[ScriptFault, str]:
    """Return how to take a refusal, and its text."""
    text = str(error)
    if isinstance(error, (NoScriptError, ReadOnlyError)):
        return ScriptFault.CONNECT, text
    if text.startswith("FASTPATH"):
        return ScriptFault.FOREIGN, text.partition(" ")[2]
    if isinstance(error, OutOfMemoryError) or "OOM " in text:
        return ScriptFault.REFUSE, f"Redis is out of memory: {text}"
    if text.startswith(("LATE", "NOREPLICAS", "MISCONF", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN")):
        return ScriptFault.AGAIN, text
    return ScriptFault.REFUSE, f"Redis refuses to store: {text}"


def settle(messages: Sequence[Message], stored: Stored) -> list[Outcome]:
    """Give messages that are stored their position (and those that are new their time); one outcome each, in order.
    A number stands for a position in the epoch of the answer."""
    epoch, time = stored.epoch, stored.time
    outcomes: list[Outcome] = []
    for message, answer in zip(messages, stored.answers, strict=True):
        if type(answer) is int:
            message.time = time
            if answer:
                message.epoch, message.seq = epoch, answer
            outcomes.append(answer)
            continue
        assert isinstance(answer, bytes)
        if answer in REASONS:
            outcomes.append((answer.decode(), REASONS[answer]))
            continue
        of, seq = parse_place(answer)
        if seq:
            message.epoch, message.seq = of, seq
            outcomes.append((of, seq))
        else:
            outcomes.append(0)
    return outcomes
