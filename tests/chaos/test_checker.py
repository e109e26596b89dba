"""The checker against histories in which all is well, and the same with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos.checker import check
from tests.chaos.model import (
    ACKED,
    RECOVERED,
    REFUSED,
    UPDATE,
    Answered,
    Finding,
    Lost,
    Moved,
    Publication,
    Run,
    Seen,
    Told,
    Trace,
)
from tests.chaos.world import EPOCH, World

A = "/w/a"

STEPS = st.lists(st.sampled_from(["publish"] * 8 + ["unsure", "lose", "connect", "fail over"]), max_size=60)


def history(seed: int, steps: list[str]) -> Run:
    """A run without faults, of a seed and steps."""
    world = World(seed)
    for step in ["publish"] * 6 + steps + ["publish"] * 6:
        number = world.random.randrange(len(world.traces))
        match step:
            case "publish" | "unsure":
                world.publish(acknowledged=step == "publish")
            case "lose":
                world.lose(number)
            case "connect" if world.read[number] is None:
                world.connect(number)
            case "fail over":
                world.fail_over()
    return world.end()


def named(findings: list[Finding], content: str) -> set[str]:
    """The kinds of the findings that name a message."""
    return {finding.kind for finding in findings if finding.content == content}


def deliveries(run: Run, kinds: tuple[str, ...] = (UPDATE, RECOVERED)) -> list[tuple[Trace, int, Seen]]:
    """Every acknowledged message that a client was sent: where, and which."""
    return [
        (trace, index, event)
        for trace in run.traces
        for index, event in enumerate(trace.events)
        if isinstance(event, Seen) and event.kind in kinds and run.publications[event.content].outcome == ACKED
    ]


@given(st.integers(0, 1 << 30), STEPS)
@settings(max_examples=60, deadline=None)
def test_nothing_is_wrong_where_nothing_is(seed: int, steps: list[str]) -> None:
    verdict = check(history(seed, steps))
    assert verdict.findings == []
    assert verdict.resynchronised == verdict.resynchronised_in_reach
    assert verdict.acknowledged >= 12


@given(st.integers(0, 1 << 30), STEPS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_one_delivery_less_is_seen_and_named(seed: int, steps: list[str], pick: object) -> None:
    run = history(seed, [step for step in steps if step != "fail over"])
    trace, index, event = pick.choice(deliveries(run))  # type: ignore[attr-defined]
    del trace.events[index]
    kinds = named(check(run).findings, event.content)
    assert kinds and kinds <= {"lost", "unannounced", "false_recovery"}


@given(st.integers(0, 1 << 30), STEPS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_one_delivery_more_is_seen_and_named(seed: int, steps: list[str], pick: object) -> None:
    run = history(seed, [step for step in steps if step != "fail over"])
    trace, index, event = pick.choice(deliveries(run))  # type: ignore[attr-defined]
    trace.events.insert(index + 1, event)
    assert "doubled" in named(check(run).findings, event.content)


@given(st.integers(0, 1 << 30), STEPS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_two_deliveries_exchanged_are_seen_and_named(seed: int, steps: list[str], pick: object) -> None:
    run = history(seed, [step for step in steps if step != "fail over"])
    trace = pick.choice(run.traces)  # type: ignore[attr-defined]
    mine = [(index, event) for one, index, event in deliveries(run) if one is trace]
    at, first = pick.choice(mine[:-1])  # type: ignore[attr-defined]
    others = [(index, event) for index, event in mine if event.subject == first.subject and index > at]
    if not others:
        return
    to, second = others[0]
    trace.events[at], trace.events[to] = second, first
    findings = check(run).findings
    assert named(findings, first.content) | named(findings, second.content)


def acked(number: int, seq: int, epoch: int = EPOCH) -> Publication:
    return Publication(f"p:{number}", "p", number, A, ACKED, (epoch, seq), positions=[(epoch, seq)])


def seen(number: int, seq: int, kind: str = UPDATE, epoch: int = EPOCH, at: int = 10) -> Seen:
    return Seen(at, A, epoch, seq, kind, f"p:{number}")


def begun(seq: int = 0) -> Answered:
    return Answered(1, A, EPOCH, seq, "", 0, None)


def answered(recovery: str, seq: int, since: int, messages: int = 0, at: int = 20, epoch: int = EPOCH) -> Answered:
    return Answered(at, A, epoch, seq, recovery, messages, (EPOCH, since))


def run_of(*events: object, published: list[Publication] | None = None, library: bool = False) -> Run:
    """Three acknowledged messages, and one client."""
    published = published if published is not None else [acked(1, 1), acked(2, 2), acked(3, 3)]
    trace = Trace("c", list(events), library=library)  # type: ignore[arg-type]
    return Run({one.content: one for one in published}, [trace], cache_ms=5000)


def refused(run: Run) -> None:
    run.publications["p:2"].outcome, run.publications["p:2"].code = REFUSED, "failed"
    run.publications["p:2"].position = None


def twice(run: Run) -> None:
    run.publications["p:2"].positions.append((EPOCH, 9))


def unseen_position(run: Run) -> None:
    run.publications["p:2"].position = (EPOCH, 7)


def overwritten(run: Run) -> None:
    run.publications["p:4"] = acked(4, 3, EPOCH + 1)


def not_in_the_log(run: Run) -> None:
    run.final[A] = [(1, "p:1"), (3, "p:3")]


def old_snapshot(run: Run) -> None:
    run.snapshots[A] = 2, "p:2"


@pytest.mark.parametrize(
    ("change", "kind", "content"),
    [
        (refused, "refused_but_seen", "p:2"),
        (twice, "doubled", "p:2"),
        (unseen_position, "reordered", "p:2"),
        (overwritten, "lost", "p:3"),
        (not_in_the_log, "lost", "p:2"),
        (old_snapshot, "wrong_snapshot", "p:2"),
    ],
)
def test_what_the_server_says_is_held_against_what_it_did(
    change: Callable[[Run], None], kind: str, content: str
) -> None:
    run = run_of(begun(), seen(1, 1), seen(2, 2), seen(3, 3))
    assert check(run).findings == []
    change(run)
    assert kind in named(check(run).findings, content)


@pytest.mark.parametrize(
    ("events", "kind", "content"),
    [
        ([begun(), seen(1, 1), seen(3, 3)], "lost", "p:2"),
        ([begun(), seen(1, 1), seen(2, 2)], "lost", "p:3"),
        ([begun(), seen(1, 1), seen(3, 2), seen(2, 3)], "reordered", "p:2"),
        ([begun(), seen(1, 1), Lost(11, ""), answered("recovered", 3, 1, 2), seen(3, 3, RECOVERED)], "lost", "p:2"),
        ([begun(), seen(1, 1), Lost(11, ""), answered("", 3, 1)], "unannounced", "number 3"),
        ([begun(), seen(1, 1), seen(2, 2), Lost(11, ""), answered("recovered", 1, 2)], "false_recovery", "number 1"),
        ([begun(), seen(1, 1), seen(2, 2), seen(3, 3), seen(4, 1, epoch=EPOCH + 1)], "reordered", "p:4"),
    ],
)
def test_what_a_client_was_sent_is_held_against_what_was_acknowledged(
    events: list[object], kind: str, content: str
) -> None:
    assert kind in named(check(run_of(*events)).findings, content)


def test_who_was_told_has_lost_nothing_but_it_counts_where_the_cache_reached() -> None:
    """A resynchronisation is no finding; that it was not necessary is what the caps of the faults are for."""
    soon = check(run_of(begun(), seen(1, 1), Lost(11, ""), answered("resynchronised", 3, 1, at=100)))
    assert (soon.findings, soon.resynchronised, soon.resynchronised_in_reach) == ([], 1, 1)
    late = check(run_of(begun(), seen(1, 1), Lost(11, ""), answered("resynchronised", 3, 1, at=9000)))
    assert (late.findings, late.resynchronised, late.resynchronised_in_reach) == ([], 1, 0)
    library = check(run_of(seen(1, 1), Told(20, A, "resynchronised"), seen(3, 3), library=True))
    assert (library.findings, library.resynchronised) == ([], 1)


def test_the_cache_reaches_while_it_holds_the_first_message_that_is_lacked() -> None:
    """Who loses its connection between the answer and what it announced stands where it stood."""
    late, soon = (
        run_of(
            begun(),
            seen(1, 1),
            Lost(11, ""),
            answered("recovered", 3, 1, 2, at=6000),
            answered("resynchronised", 3, 1, at=7000),
        )
        for _ in range(2)
    )
    for run, sent in ((late, 100), (soon, 5000)):
        for one in run.publications.values():
            one.sent_ms = sent
    assert [check(run).resynchronised_in_reach for run in (late, soon)] == [0, 1]


def test_a_client_that_was_told_recovered_lacks_nothing() -> None:
    run = run_of(seen(1, 1), Told(20, A, "recovered"), seen(3, 3, RECOVERED), library=True)
    run.traces.append(Trace("d", [begun(), seen(1, 1), seen(2, 2), seen(3, 3)]))
    assert named(check(run).findings, "p:2") == {"false_recovery"}


def test_what_a_new_epoch_made_void_may_come_again() -> None:
    """The third message was seen, was not acknowledged, is gone, and is stored anew by its publisher's retry."""
    third = acked(3, 4, EPOCH + 1)
    other = acked(4, 3, EPOCH + 1)
    moved = Moved(15, A, EPOCH + 1, 2)
    events = [begun(), seen(1, 1), seen(2, 2), seen(3, 3), moved]
    again = [seen(4, 3, epoch=EPOCH + 1), seen(3, 4, epoch=EPOCH + 1)]
    published = [acked(1, 1), acked(2, 2), third, other]
    assert "reordered" in {one.kind for one in check(run_of(*events, *again, published=published)).findings}
    other.publisher = "q"
    verdict = check(run_of(*events, *again, published=published))
    assert (verdict.findings, verdict.resynchronised) == ([], 1)
    third.position = EPOCH, 3
    assert "lost" in named(check(run_of(*events, *again[:1], published=published)).findings, "p:3")


@pytest.mark.parametrize("library", [False, True])
def test_who_begins_anew_in_a_new_epoch_may_have_read_what_it_made_void(library: bool) -> None:
    """The third message was read where it was not acknowledged; the client came back after others were at its place."""
    third, other, fifth = acked(3, 4, EPOCH + 1), acked(4, 3, EPOCH + 1), acked(5, 5, EPOCH + 1)
    other.publisher = "q"
    told = Told(20, A, "resynchronised") if library else answered("resynchronised", 4, 3, epoch=EPOCH + 1)
    events = [seen(1, 1), seen(2, 2), seen(3, 3), Lost(11, ""), told, seen(5, 5, epoch=EPOCH + 1)]
    published = [acked(1, 1), acked(2, 2), third, other, fifth]
    run = run_of(*([] if library else [begun()]), *events, published=published, library=library)
    verdict = check(run)
    assert (verdict.findings, verdict.resynchronised) == ([], 1)
    third.position, third.positions = (EPOCH, 3), [(EPOCH, 3)]  # what was acknowledged there is not void
    assert check(run).findings != []


def test_where_a_fault_destroys_everything_nobody_lacks_anything_but_order_counts() -> None:
    told = answered("resynchronised", 0, 3, epoch=EPOCH + 5)
    events = [begun(), seen(1, 1), seen(2, 2), seen(3, 3), Lost(11, ""), told, seen(5, 1, epoch=EPOCH + 5)]
    run = run_of(*events, published=[acked(1, 1), acked(2, 2), acked(3, 3), acked(5, 1, EPOCH + 5)])
    assert {finding.kind for finding in check(run).findings} == {"lost", "reordered"}
    run.forgets = True
    assert check(run).findings == []
