"""The bulk step: rows that come as runs are numbered, cached and delivered like publications, and cost far less.

A run is numbered as one. Of its rows only those are made that somebody needs: all for who is subscribed or follows
this broker, the newest for the cache, the last one for the snapshot and for conflation. What is released was checked
before, when it was staged: no rights are asked here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import cast

from ..cache.snapshot import Snapshot
from ..delivery import slow_consumers
from ..delivery.audience import Topic
from ..protocol.columns import ColumnBatch, count, expand, part
from ..protocol.messages import Message
from ..protocol.packets import Refusal
from .admission import Done, Outcome
from .broker import BASE_MS_MAX, Broker

RunOutcome = int | Refusal
"""Number of the rows of a run that are stored, now or before; or a code of protocol.md 4.4 and why none of them is."""

RunsDone = Callable[[list[RunOutcome]], None]
"""Takes the outcomes of runs, in their order."""


SHORT_ROWS = 3
"""Runs of fewer rows, on average, are delivered row by row: that costs less."""


def release_runs(
    broker: Broker, runs: Sequence[ColumnBatch], publisher: str, first: int, now: int, done: RunsDone | None = None
) -> None:
    """Publish the rows of the runs, which are publications ``first`` and following of ``publisher``.

    ``done`` gets one outcome a run, when ``Broker.publish`` would call it. A publication up to the publisher's last
    number counts as stored; an engine that numbers elsewhere knows more than that number, and is asked about each row.
    What cannot be stored at this moment is refused together: all that is new.
    """
    outcomes: list[RunOutcome] = [len(run.contents) for run in runs]
    numbers = list(accumulate(cast(list[int], outcomes), initial=first))
    numbering = broker.engine.numbering
    if numbering is None:
        _release_rows(broker, runs, publisher, numbers, outcomes, now, done)
        return
    taken = _taken(broker, runs, numbers, numbering.stored(publisher), outcomes, now)
    if taken:
        if broker.stopwatch is not None:
            broker.stopwatch.accept()
        fresh = list(taken.values())
        starts = numbering.append_runs(fresh, publisher, numbers[next(reversed(taken)) + 1] - 1, now)
        if isinstance(starts, list):
            deliver_runs(broker, fresh, starts, now)
        else:
            for index in taken:
                outcomes[index] = starts
            broker.counters.failed([starts] * count(fresh))
    if done is not None:
        broker.engine.acknowledging(cast(Done, done))(cast(list[Outcome], outcomes))


def deliver_runs(broker: Broker, runs: Sequence[ColumnBatch], starts: Sequence[int], now: int) -> None:
    """Merge, cache and offer numbered runs, in order; ``starts`` are the positions of their first rows."""
    epoch = broker.engine.epoch
    rows = count(runs)
    counted = broker.counters.messages_in + rows
    each = broker.log is not None or broker.trail is not None or counted >= broker.sample_at
    if each or rows < SHORT_ROWS * len(runs) or any(run.meta and run.removed for run in runs):
        messages: list[Message] = []
        for run, seq in zip(runs, starts, strict=True):
            messages += expand(run, epoch=epoch, seq=seq, time=now)
        broker.deliver(messages)
        return
    if now - broker.base > BASE_MS_MAX:
        broker.move_base(now)
    broker.counters.messages_in = counted
    topics = broker.interest.topics
    for run, seq in zip(runs, starts, strict=True):
        topic = topics.get(run.subject)
        if topic is None or not topic.known:
            topic = broker.topic(run.subject, epoch)
        if seq:
            if epoch != topic.epoch:
                broker.begin_epoch(topic, epoch, seq)
            topic.seq = seq + len(run.contents) - 1
        if run.meta:
            topic.version = max(topic.version, run.version)
        _deliver(broker, topic, run, seq, now)


def _deliver(broker: Broker, topic: Topic, run: ColumnBatch, seq: int, now: int) -> None:
    """Make the rows that are needed, and hand them to who needs them."""
    history = broker.history
    rows = len(run.contents)
    kept = (not run.meta or run.retained) and broker.keeps_snapshot(topic)
    cached = min(rows, history.room_for(topic)) if seq and broker.guaranteed else 0
    if seq and not cached:
        history.leave_out(topic)
    needed = rows if topic.feed is not None or (cached and history.told is not None) else cached
    if not needed and (kept or topic.live is not None):
        needed = 1
    if not needed:
        return
    run.subject = topic.subject  # one text for all cached messages of the subject
    messages = expand(run, rows - needed, epoch=topic.epoch, seq=seq, time=now)
    last = messages[-1]
    if cached and history.told is not None:
        for message in messages:
            history.append(topic, message)
    elif cached:
        history.extend(topic, messages[-cached:] if needed > cached else messages, rows - cached)
    if kept:
        if topic.snapshot is None or topic.snapshot.newest.time < now - (broker.limits.snapshot_ms or now):
            topic.snapshot = Snapshot(last)
        topic.snapshot.merge_run(run, last)
    if topic.live is not None and topic.live.note_run(run, last):
        slow_consumers.relieve(broker, topic, topic.live)
    if topic.feed is not None:
        offer, feed = broker.offer, topic.feed
        for message in messages:
            offer(feed, message)


def _taken(
    broker: Broker,
    runs: Sequence[ColumnBatch],
    numbers: Sequence[int],
    stored: int,
    outcomes: list[RunOutcome],
    now: int,
) -> dict[int, ColumnBatch]:
    """Return the runs' new rows that are not refused, by their run's index; refusals go into ``outcomes``."""
    fresh: dict[int, ColumnBatch] = {}
    for index, run in enumerate(runs):
        if numbers[index] <= stored < numbers[index + 1] - 1:
            fresh[index] = part(run, stored + 1 - numbers[index])
        elif stored < numbers[index] < numbers[index + 1]:
            fresh[index] = run
    indices = list(fresh)
    for place, refusal in broker.admission.refused_runs(list(fresh.values()), now).items():
        run = fresh.pop(indices[place])
        outcomes[indices[place]] = refusal
        broker.counters.refused([refusal] * len(run))
    if broker.interest.options.rows:
        return {index: broker.admission.by_options(run) for index, run in fresh.items()}
    return fresh


def _release_rows(
    broker: Broker,
    runs: Sequence[ColumnBatch],
    publisher: str,
    numbers: Sequence[int],
    outcomes: list[RunOutcome],
    now: int,
    done: RunsDone | None,
) -> None:
    """Hand the runs on row by row, to an engine that numbers them elsewhere."""
    taken = _taken(broker, runs, numbers, 0, outcomes, now)
    messages: list[Message] = []
    for index, run in taken.items():
        messages += expand(run, publisher=publisher, first=numbers[index])

    def told(answers: list[Outcome]) -> None:
        at = 0
        for index, run in taken.items():
            outcomes[index] = _combined(answers[at : at + len(run)])
            at += len(run)
        if done is not None:
            done(outcomes)

    broker.submit(messages, now, told)


def _combined(outcomes: list[Outcome]) -> RunOutcome:
    """Return the outcome of a run of those of its rows; ``stale`` is what has been stored too long ago to tell
    where."""
    for outcome in outcomes:
        if isinstance(outcome, tuple) and isinstance(outcome[0], str) and outcome[0] != "stale":
            return outcome[0], str(outcome[1])
    return len(outcomes)
