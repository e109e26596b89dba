"""What a request for events asks for: subjects with the options of a subscription, and from where (GET /events)."""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import parse_qs

from ..protocol.errors import InvalidMessage
from ..protocol.limits import SUBJECTS_PER_COMMAND_MAX
from ..protocol.subject import is_wildcard
from .cursor import UNKNOWN, decode_cursor
from .framing import encode_event

EVENTS_PATH = "/events"
"""Path where events are read."""

SESSION_PATH = "/session/stream"
"""Path where a session over HTTP begins that reads a stream."""

STREAMS = (EVENTS_PATH, SESSION_PATH)
"""Paths of which a GET brings what has no end."""

EVENTS_TYPE = "text/event-stream"

RETRY_MS = 2000
"""Milliseconds after which a browser comes back whose stream has ended."""

_NOWHERE = (0, 0)
"""The position of who has had a subject or pattern and does not say how far it was (protocol.md 3.8)."""

_POSITION = re.compile(r"(\d{1,16}),(\d{1,16})")
_NUMBER = re.compile(r"\d{1,16}")


class EventsRequest(NamedTuple):
    """The subscription of a stream; ``malformed`` says why the cursor that came with it is none."""

    subjects: list[str]
    history: int
    conflation: int
    slow: str
    since: dict[str, tuple[int, int]]
    malformed: str

    @property
    def known(self) -> dict[str, tuple[int, int]]:
        """Positions where the reader says that it is."""
        return {subject: place for subject, place in self.since.items() if place != _NOWHERE}


def parse_events_request(query: str, last_event_id: str = "") -> EventsRequest:
    """Return the request of an address's query and of the header ``Last-Event-ID``, which a browser sends when it comes
    back; ``since`` is the same for its first time, or EPOCH,SEQ for all subjects.

    Raises InvalidMessage. A cursor that is none is told, and the stream begins as a new one.
    """
    try:
        given = parse_qs(query, keep_blank_values=True, max_num_fields=SUBJECTS_PER_COMMAND_MAX, errors="strict")
    except ValueError:  # UnicodeDecodeError is one
        raise InvalidMessage(
            "invalid", f"the query is UTF-8 with at most {SUBJECTS_PER_COMMAND_MAX} parameters"
        ) from None
    listed = [subject for text in given.get("subjects", ()) for subject in text.split(",")]
    subjects = list(dict.fromkeys(subject for subject in (*listed, *given.get("subject", ())) if subject))
    if not subjects:
        raise InvalidMessage("invalid", "name subjects or patterns: /events?subjects=/stocks/us/IBM,/chat/**")
    if len(subjects) > SUBJECTS_PER_COMMAND_MAX:
        raise InvalidMessage("limit", f"a stream has at most {SUBJECTS_PER_COMMAND_MAX} subjects and patterns")
    slow = given.get("slow", ["close"])[-1]
    if slow not in ("close", "conflate"):
        raise InvalidMessage("invalid", 'slow is "close" or "conflate"')
    cursor = last_event_id or given.get("since", [""])[-1]
    since: dict[str, tuple[int, int]] = {}
    malformed = ""
    if position := _POSITION.fullmatch(cursor):
        since = dict.fromkeys(subjects, (int(position[1]), int(position[2])))
    elif cursor == UNKNOWN:
        since = dict.fromkeys(subjects, _NOWHERE)
    elif cursor:
        try:
            # Of a pattern that it had, all that came to be while it was away is wanted from the first message on.
            since = dict.fromkeys(filter(is_wildcard, subjects), _NOWHERE) | decode_cursor(cursor, subjects)
        except InvalidMessage as error:
            malformed = error.reason
    return EventsRequest(subjects, _number(given, "history"), _number(given, "conflation"), slow, since, malformed)


def opening(asked: EventsRequest) -> bytes:
    """Return what a stream begins with: when to come back, and what could not be made of the cursor that was given."""
    told = [b"retry: %d\n\n" % RETRY_MS]
    if asked.malformed:
        told.append(_event("refused", code="invalid", reason=asked.malformed))
    return b"".join(told)


def _event(name: str, **content: str) -> bytes:
    return encode_event(json.dumps(content).encode(), name)


def _number(given: dict[str, list[str]], name: str) -> int:
    text = given.get(name, ["0"])[-1]
    if not _NUMBER.fullmatch(text):
        raise InvalidMessage("invalid", f"{name} is a whole number from 0 on")
    return int(text)
