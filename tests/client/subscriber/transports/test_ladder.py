"""The ladder's laws, whatever happens; what it does case by case is in tests/behaviours/transports.json."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.options import TRANSPORTS
from fastpath.client.subscriber.transports.ladder import UP_SECONDS_MAX, Failure, Ladder, RememberedTransport
from fastpath.client.subscriber.transports.memory import ADDRESSES_MAX, AddressMemory

URLS = ("ws://a/ws", "ws://b/ws")
UP = 600.0

failures: st.SearchStrategy[Failure] = st.sampled_from(["unreachable", "unanswered", "refused", "silent", "closed"])
events = st.one_of(
    st.tuples(st.just("failed"), failures, st.sampled_from([1006, 1011, 4001, 4003, 4006]), st.booleans()),
    st.tuples(st.just("stood"), st.floats(0, 5000)),
    st.tuples(st.just("lost"), st.sampled_from([1006, 1009, 4000, 4001, 4002]), st.floats(0, 200)),
    st.tuples(st.just("pass"), st.floats(0, 5000)),
    st.tuples(st.just("probe"), st.booleans()),
)


@given(st.sampled_from([TRANSPORTS, ("stream", "poll"), ("websocket",)]), st.lists(events, max_size=60))
def test_whatever_happens(transports: tuple[str, ...], story: list[tuple[object, ...]]) -> None:
    memory = AddressMemory()
    ladder = Ladder(transports, memory, up_seconds=UP, steady_seconds=60)
    now, number, stands, tried = 0.0, 0, False, False
    for what, *how in story:
        if not stands and not tried:
            ladder.begin(URLS[number % 2], now)
            number, tried = number + 1, True
        rung = ladder.transport
        match what:
            case "failed" if not stands:
                failure, code, more = how
                again = ladder.failed(failure, code, "why", more)  # type: ignore[arg-type]
                below = transports.index(ladder.transport) - transports.index(rung)
                assert below == (1 if again else 0)  # one step at a time, and never upwards
                assert not again or failure != "unreachable"  # nobody is blamed where nobody is there
                assert ladder.why[0]
                tried = again
            case "stood" if not stands:
                ladder.stood(now)
                stands, tried = True, True
                known = memory.load(URLS[(number - 1) % 2])
                if rung == transports[0]:
                    assert (known, ladder.probe_at) == (None, None)
                else:
                    assert known is not None and known.transport == rung
                    assert ladder.probe_at is not None and now < ladder.probe_at <= now + max(UP, UP_SECONDS_MAX)
            case "lost" if stands:
                code, seconds = how
                now += seconds  # type: ignore[operator]
                ladder.lost(code, now)  # type: ignore[arg-type]
                ladder.stop()
                stands = tried = False
                assert ladder.probe_at is None
            case "pass":
                now += how[0]  # type: ignore[operator]
            case "probe" if stands and ladder.probe_at is not None:
                now = max(now, ladder.probe_at)
                above = ladder.probe()
                assert transports.index(above) < transports.index(rung)
                if ladder.probed(above, bool(how[0]), now):
                    ladder.stop()
                    stands = tried = False
                else:
                    assert ladder.probe_at is not None  # there is always a next try


def test_without_a_memory_of_it_an_address_begins_at_the_top() -> None:
    ladder = Ladder(TRANSPORTS, AddressMemory())
    ladder.begin("ws://a/ws", 0)
    assert (ladder.transport, ladder.has_lower) == ("websocket", True)


def test_the_wish_decides_which_and_not_in_which_order() -> None:
    ladder = Ladder(["poll", "websocket"], AddressMemory())
    ladder.begin("ws://a/ws", 0)
    assert ladder.failed("refused", 1006, "", more=False)
    assert (ladder.transport, ladder.has_lower) == ("poll", False)


def test_what_is_remembered_is_bounded() -> None:
    memory = AddressMemory()
    for number in range(ADDRESSES_MAX + 10):
        memory.save(f"ws://{number}/ws", RememberedTransport("poll", 1))
    assert [memory.load(f"ws://{number}/ws") is None for number in (9, 10)] == [True, False]
