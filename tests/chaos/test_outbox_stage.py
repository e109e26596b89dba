"""What the checker says of an outbox: the counters of the database against what was stored and seen."""

from __future__ import annotations

import pytest

from tests.chaos.checker import check
from tests.chaos.faults import FAULTS
from tests.chaos.model import UPDATE, Answered, Event, Run, Seen, Trace
from tests.chaos.stage_outbox import committed
from tests.chaos.transactions import content_of

A, B = "/a/a", "/a/b"


def run(*stored: str) -> Run:
    """Three commits of one subject and one of another, of which these contents are stored in this order."""
    at = {A: 0, B: 0}
    events: list[Event] = [Answered(1, A, 1, 0, "", 0, None), Answered(1, B, 1, 0, "", 0, None)]
    log: dict[str, list[tuple[int, str]]] = {A: [], B: []}
    for content in stored:
        subject = content.partition("=")[0] if content.startswith("/") else A
        at[subject] += 1
        events.append(Seen(1, subject, 1, at[subject], UPDATE, content))
        log[subject].append((at[subject], content))
    return Run(publications=committed({A: 3, B: 1, "/a/c": 0}, list(stored)), traces=[Trace("one", events)], final=log)


FIRST, SECOND, THIRD, OTHER = content_of(A, 1), content_of(A, 2), content_of(A, 3), content_of(B, 1)


def test_what_was_committed_is_stored_once_in_order() -> None:
    verdict = check(run(FIRST, OTHER, SECOND, THIRD))
    assert verdict.findings == []
    assert verdict.acknowledged == 4


@pytest.mark.parametrize(
    ("stored", "kind", "content"),
    [
        ([FIRST, OTHER, THIRD], "lost", SECOND),
        ([FIRST, OTHER, SECOND], "lost", THIRD),
        ([FIRST, SECOND, THIRD], "lost", OTHER),
        ([FIRST, SECOND, FIRST, THIRD, OTHER], "doubled", FIRST),
        ([FIRST, THIRD, SECOND, OTHER], "reordered", SECOND),
        ([FIRST, SECOND, "never=writer=1", THIRD, OTHER], "refused_but_seen", "never=writer=1"),
    ],
)
def test_what_was_not_is_named(stored: list[str], kind: str, content: str) -> None:
    assert (kind, content) in {(one.kind, one.content) for one in check(run(*stored)).findings}


def test_the_short_form_has_one_round_of_the_outbox() -> None:
    assert [fault.name for fault in FAULTS if fault.postgres and fault.short] == ["outbox-all-at-once"]
    assert len([fault for fault in FAULTS if fault.postgres]) == 5
    assert {fault.postgres for fault in FAULTS if not fault.short} == {True}, "no other is left out"
