"""How far a publisher is, by what it sent and what was answered."""

from __future__ import annotations

from fastpath.edge.runtime.publisher_progress import RATE_SECONDS, Progress


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
