"""How far a publisher is, by what it sent and what was answered, and what is kept of its sender."""

from __future__ import annotations

from collections.abc import Generator

from fastpath.core.telemetry.senders import Row
from fastpath.edge.runtime.publisher_accounts import RATE_SECONDS, Accounts, Progress


def test_what_waits_is_known_by_batch_and_by_age() -> None:
    progress = Progress()
    assert (progress.oldest_ms(5000), progress.last, progress.batches) == (0, 0, 0)
    for batch, messages, moment in ((1, 10, 1000), (2, 5, 1500), (3, 1, 1700)):
        progress.took(batch, messages, moment)
    assert (progress.messages, progress.unacknowledged, progress.batches, progress.last) == (16, 16, 3, 1700)
    assert progress.oldest_ms(2000) == 1000
    progress.acknowledged(2)
    assert (progress.unacknowledged, progress.oldest_ms(2000)) == (11, 1000)
    progress.acknowledged(1)
    assert (progress.unacknowledged, progress.oldest_ms(2000)) == (1, 300)
    assert progress.oldest_ms(1000) == 0, "the clock was set back"
    progress.acknowledged(3)
    assert (progress.messages, progress.unacknowledged, progress.oldest_ms(9000)) == (16, 0, 0)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    progress = Progress()
    assert progress.messages_per_s == 0
    progress.took(1, 30, 1000)
    assert progress.messages_per_s == 0, "the second is not over"
    progress.mark()
    assert progress.messages_per_s == 30
    progress.mark()
    progress.mark()
    assert progress.messages_per_s == 10
    for _ in range(RATE_SECONDS):
        progress.mark()
    assert progress.messages_per_s == 0


def test_a_sender_has_what_its_connections_have_sent_each_message_once() -> None:
    """However often it is gathered; what is staged is counted by its transaction."""
    accounts, first, second = Accounts(), Progress(), Progress()
    first.took(1, 10, 1000)
    second.took(1, 5, 2000)
    second.stages("t", 3, 2500)
    for progress in (first, first, second, second):
        accounts.gather("u", "feed", progress)
    first.took(2, 1, 3000)
    accounts.gather("u", "feed", first)
    accounts.mark(3500)

    (row,) = _returned(accounts.rows([], 4000))
    assert (row["kind"], row["name"], row["messages"], row["messages_per_s"]) == ("publisher", "feed", 16, 16)
    assert row["last_ms"] == 3000


def _returned(work: Generator[None, None, list[Row]]) -> list[Row]:
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: list[Row] = done.value
            return found
