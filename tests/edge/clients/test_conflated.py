"""Conflation in real time (features.md A7): one message an interval, merged, on the grid that the subscription set."""

from __future__ import annotations

from itertools import count, pairwise

from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

_NUMBERS = count()
"""Of subjects: a second try finds the first one's messages."""


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
