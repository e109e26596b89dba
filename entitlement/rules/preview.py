"""What a user may read and publish, of the subjects that are in use on the sidecar now."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from entitlement import conf
from entitlement.rules.explain import SIDECAR_SECONDS, Decider, Person, Verdict, differs
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.auth.rules import PUBLISH, SUBSCRIBE
from fastpath.core.protocol.subject import is_wildcard

ROWS = 50
"""Subjects on a page."""

LOOK = 1000
"""Subjects that are asked for at once when only some of them are shown."""

LOOKS_MAX = 5
"""Number of looks after which a page ends, however few rows it shows: the next page goes on there."""

ALL, ALLOWED, DENIED = "all", "allowed", "denied"


@dataclass(frozen=True)
class Row:
    """A subject in use, and whether the user may read and publish it."""

    subject: str
    seq: int
    snapshot: bool
    subscribed: bool
    read: Verdict
    publish: Verdict


@dataclass
class Page:
    """Some rows; ``after`` is where the next page begins, empty when this is the last one."""

    rows: list[Row] = field(default_factory=list)
    total: int = 0
    snapshots: int = 0
    looked: int = 0
    after: str = ""
    error: str = ""
    warning: str = ""

    @property
    def readable(self) -> int:
        """The number of rows that may be read."""
        return sum(row.read.allowed for row in self.rows)


def page(who: Person, text: str = "", show: str = ALL, after: str = "", rows: int = ROWS) -> Page:
    """Return the next rows behind the subject ``after``; ``text`` is a pattern, or how the subjects begin.

    ``show`` keeps those that may be read, or those that may not. ``error`` of the page says why there is none.
    """
    found = Page()
    try:
        with Nodes(conf.control_addresses(), timeout_seconds=SIDECAR_SECONDS) as nodes:
            found.warning = differs(nodes.hello())
            for _ in range(LOOKS_MAX):
                answer = nodes.subjects(
                    pattern=text if is_wildcard(text) else "",
                    prefix="" if is_wildcard(text) else text,
                    after=found.after or after,
                    limit=rows if show == ALL else LOOK,
                )
                found.total, found.snapshots = answer["total"], answer["snapshots"]
                _take(found, who, answer["subjects"], show, rows, answer["more"])
                if not found.after or len(found.rows) >= rows:
                    break
    except (SidecarUnavailable, ControlRefused) as error:
        found.error = str(error)
    return found


def _take(found: Page, who: Person, subjects: list[Any], show: str, rows: int, more: bool) -> None:
    """Decide about these subjects, and keep those that are to be shown until the page is full."""
    now = int(time.time() * 1000)
    decider = Decider(who, [subject for subject, *_ in subjects])
    found.after = ""
    for place, (subject, seq, snapshot, subscribed) in enumerate(subjects):
        read = decider.verdict(subject, SUBSCRIBE, now)
        found.looked += 1
        if show == ALL or read.allowed == (show == ALLOWED):
            publish = decider.verdict(subject, PUBLISH, now)
            found.rows.append(Row(subject, seq, snapshot, subscribed, read, publish))
        if len(found.rows) >= rows or place == len(subjects) - 1:
            found.after = subject if more or place < len(subjects) - 1 else ""
            return
