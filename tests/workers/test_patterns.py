"""A pattern goes on when the first worker dies: what was missed comes, and subjects that come to be later."""

from __future__ import annotations

import pytest

from tests.support.edge.patterns import found
from tests.support.edge.spread import kill_worker, publisher, spread
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.slow


def test_the_first_worker_dies() -> None:
    """Its successor numbers on; the client of another worker is told nothing twice, and of the new subject."""
    with Sidecar(workers=2) as sidecar, spread(sidecar, 2) as clients:
        (ann,) = clients.others
        with publisher(sidecar) as before:
            before.publish(["/s/a", "1"], ["/s/b", "1"])
        ann.subscribe("/s/*")
        found(ann, "/s/a", "/s/b")
        assert sorted(ann.texts(2)) == ["1", "1"]
        kill_worker(sidecar, 0, 2)
        with publisher(sidecar) as after:
            after.publish(["/s/a", "2"], ["/s/new", "1"], ["/s/new", "2"])
        got = [ann.message() for _ in range(3)]
        assert [(ann.subjects[one[0]], one[3]) for one in got] == [("/s/a", "2"), ("/s/new", "1"), ("/s/new", "2")]
