"""Conflation in real time (features.md A7): one message an interval, merged, on the grid that the subscription set."""

from __future__ import annotations

from itertools import count, pairwise

import pytest

from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

_NUMBERS = count()
"""Of subjects: a second try finds the first one's messages."""

INTERVAL_SECONDS = 0.5
TOLERANCE_SECONDS = 0.3
"""The grid of 100 ms, and a machine that does other things as well."""

ROUNDED = {0: 0, 78: 0, 99: 0, 100: 100, 199: 100, 547: 500, 887: 800, 5000: 5000, 10**9: 3_600_000}


def test_the_interval_in_force_is_told(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        for asked, told in ROUNDED.items():
            [result] = client.subscribe("/round/one", conflation=asked)
            assert result.get("conflation", 0) == told


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_the_example(shared: Sidecar, form: str) -> None:
    """The reference's example, with half a second for its five seconds."""
    number = next(_NUMBERS)
    subject, clock = f"/Stocks/{form}/{number}", f"/clock/{form}/{number}"
    with WireClient(shared, form) as client, WirePublisher(shared) as publisher:
        publisher.publish([subject, "193", {"volume": "6.62M"}])
        publisher.publish([subject, "192", {"bid": "194"}])
        result, _ = client.subscribe(subject, clock, conflation=547)
        assert (result["conflation"], result["seq"], result["messages"]) == (500, 2, 1)
        snapshot = client.message()
        assert snapshot[3:] == ["192", {"volume": "6.62M", "bid": "194"}, {"kind": "snapshot"}]
        publisher.publish([subject, "195", {"ask": "192"}], [subject, "196", {"bid": "197"}])
        message = client.message()
        assert message[1] == 4
        assert message[3:] == ["196", {"ask": "192", "bid": "197"}]
        # Nothing more of the subject comes at the ends of the next two intervals; the clock's message shows them.
        for tick in ("1", "2"):
            publisher.publish([clock, tick])
            message = client.message()
            assert (client.subjects[message[0]], message[3]) == (clock, tick)
        publisher.publish([subject, "197"])
        assert client.message()[3:] == ["197"], "a field that did not come within the interval is not in it"


def test_one_message_an_interval_however_many_come(shared: Sidecar) -> None:
    subject = f"/much/{next(_NUMBERS)}"
    with WireClient(shared) as client, WireClient(shared) as plain, WirePublisher(shared) as publisher:
        client.subscribe(subject, conflation=500)
        plain.subscribe(subject)
        got: list[tuple[int, int, dict[str, str]]] = []
        number = 0
        while len(got) < 6:
            while client.silent(0.01):
                number += 1
                publisher.publish([subject, str(number), {f"field{number % 7}": str(number)}])
            _, seq, _, content, fields = client.message()[:5]
            got.append((seq, int(content), fields))
        assert all(seq == content for seq, content, _ in got)
        for (before, _, _), (seq, _, fields) in pairwise(got):
            newest = {f"field{n % 7}": str(n) for n in range(before + 1, seq + 1)}
            assert fields == newest, "each field's newest value within the interval, and no older one"
        assert plain.texts(number) == [str(n) for n in range(1, number + 1)], "others get every message"
        assert number > len(got), "many became one"


def test_who_joins_late_gets_no_older_change(shared: Sidecar) -> None:
    """Both have the interval of half a second, counted from their own subscription."""
    with WirePublisher(shared) as publisher, WireClient(shared) as first, WireClient(shared) as second:
        first.subscribe("/late/one", conflation=500)
        publisher.publish(["/late/one", "a", {"old": "1"}])
        [result] = second.subscribe("/late/one", conflation=500)
        assert second.message()[3:] == ["a", {"old": "1"}, {"kind": "snapshot"}]
        publisher.publish(["/late/one", "b", {"new": "2"}])
        assert second.message()[1:2] == [result["seq"] + 1]
        fields: dict[str, str] = {}
        while "new" not in fields:
            fields |= first.message()[4]
        assert fields == {"old": "1", "new": "2"}


def test_from_conflated_to_live_and_back(shared: Sidecar) -> None:
    """A repeated subscription replaces the earlier one, without a gap."""
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        [result] = client.subscribe("/switch/one", conflation=3_600_000)
        publisher.publish(["/switch/one", "1"])
        position = {"/switch/one": [result["epoch"], 0]}
        [result] = client.subscribe("/switch/one", since=position)
        assert (result["recovery"], result["messages"]) == ("recovered", 1)
        publisher.publish(["/switch/one", "2"])
        assert client.texts(2) == ["1", "2"]
        client.subscribe("/switch/one", conflation=3_600_000)
        assert client.texts(1) == ["2"], "the snapshot"
        publisher.publish(["/switch/one", "3"])
        assert client.quiet()


def test_a_repeated_subscription_does_not_double_the_interval_in_progress(shared: Sidecar) -> None:
    """What was in the snapshot does not come again when the interval ends, which the clock's message shows."""
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        client.subscribe("/again/one", "/again/clock", conflation=100)
        position = 0
        for number in range(1, 11):
            publisher.publish(["/again/one", str(number)])
            client.say("subscribe", subjects=["/again/one"], conflation=100)
            publisher.publish(["/again/clock", ""])
            while client.subjects[(message := client.message())[0]] == "/again/one":
                seq, snapshot = message[1], len(message) == 6
                assert seq == position if snapshot and position == number else seq == position + 1
                position = seq
            assert position == number
