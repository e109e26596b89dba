"""The reader of what is cached, against real sidecars: news, ranges, refusals, and connections that are lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastpath.client.errors import CommandRefused, ConnectionRejected, Denied, Invalid, PublishTimeout
from fastpath.client.publisher.publisher import Publisher
from fastpath.client.publisher.reading import Head, Missing, Range, Reader, Run
from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """With a cache of 20,000 messages a subject."""
    with Sidecar(cache_messages=20_000) as running:
        yield running


def publish(sidecar: Sidecar, *rows: list[object]) -> None:
    """Publish the rows."""
    with Publisher(sidecar.publisher_url) as publisher:
        publisher.send_batch(rows)


def contents(reader: Reader, *ranges: Range) -> list[list[object]]:
    """What is read of each range."""
    found: list[list[object]] = [[] for _ in ranges]
    for runs in reader.read(ranges):
        for run in runs:
            found[run.at] += run.contents if isinstance(run, Run) else [run]
    return found


def test_positions_and_ranges(sidecar: Sidecar) -> None:
    publish(sidecar, *[["/p/a", str(n)] for n in range(5)], ["/p/b", "x"])
    with Reader(sidecar.publisher_url) as reader:
        first = reader.positions(["/p/*"], news=True)
        epoch = first["/p/a"].epoch
        assert first == {"/p/a": Head(epoch, 5, 1), "/p/b": Head(epoch, 1, 1)}
        assert reader.positions(["/p/*"], news=True, wait_ms=10) == {}
        assert reader.positions(["/p/*"], time=0)["/p/a"].then is None
        publish(sidecar, ["/p/c", "x"])
        assert reader.positions(["/p/*"], news=True, wait_ms=5000) == {"/p/c": Head(epoch, 1, 1)}
        ranges = Range("/p/b"), Range("/p/a", (epoch, 1), (epoch, 3)), Range("/p/a", (epoch, 4))
        assert contents(reader, *ranges) == [["x"], ["1", "2"], ["4"]]
        assert contents(reader) == []
        # More ranges than one question may have.
        assert contents(reader, *[Range("/p/b")] * 4500) == [["x"]] * 4500


def test_an_answer_that_is_left_is_no_answer_to_the_next_question(sidecar: Sidecar) -> None:
    publish(sidecar, *[["/left/a", "x" * 1000]] * 5000)
    with Reader(sidecar.publisher_url) as reader:
        next(reader.read([Range("/left/a")]))
        assert reader.positions(["/left/*"])["/left/a"].seq == 5000
        assert len(contents(reader, Range("/left/a"))[0]) == 5000


def test_it_goes_on_where_it_was_over_another_connection(sidecar: Sidecar) -> None:
    wanted = [f"{number:05}" + "x" * 2000 for number in range(3000)]
    publish(sidecar, *[["/cut/a", content] for content in wanted], ["/cut/b", "y"])
    with Proxy(sidecar.publisher_url) as proxy, Reader(proxy.address) as reader:
        got: list[list[object]] = [[], []]
        cuts = 0
        for runs in reader.read([Range("/cut/a"), Range("/cut/b")]):
            for run in runs:
                assert isinstance(run, Run)
                got[run.at] += run.contents
            if cuts < 3 and len(got[0]) > 700 * (cuts + 1):
                proxy.cut()
                cuts += 1
        assert (cuts, got) == (3, [wanted, ["y"]])
        assert set(reader.positions(["/cut/*"], news=True)) == {"/cut/a", "/cut/b"}
        proxy.cut()
        # Over the new connection it is told all of it again.
        assert set(reader.positions(["/cut/*"], news=True)) == {"/cut/a", "/cut/b"}


def test_what_is_missing_is_told_once(sidecar: Sidecar) -> None:
    publish(sidecar, *[["/gone/a", str(n)] for n in range(10)])
    publish(sidecar, *[["/gone/a", str(n)] for n in range(10, 20_005)][:10_000])
    publish(sidecar, *[["/gone/a", str(n)] for n in range(10_010, 20_005)])
    with Reader(sidecar.publisher_url) as reader:
        epoch, seq, first = reader.positions(["/gone/a"])["/gone/a"][:3]
        assert (seq, first) == (20_005, 6)
        [got] = contents(reader, Range("/gone/a", (epoch, 2), (epoch, seq)))
        assert got == [Missing(0, 3, 5, "evicted"), *[str(n) for n in range(5, 20_005)]]


def test_refusals() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        with Reader(sidecar.publisher_url, mint_jwt("ann", subscribe=["/a/*"]), retry_seconds=0.5) as reader:
            with pytest.raises(Denied, match="/b/1: no permission in the token covers it"):
                contents(reader, Range("/b/1"))
            with pytest.raises(Denied, match="/b/1: no permission in the token covers it"):
                reader.positions(["/a/*", "/b/1"])
            with pytest.raises(Invalid, match="no leading slash"):
                reader.positions(["a"])
            with pytest.raises(CommandRefused, match="limit: over 100 patterns"):
                reader.positions([f"/a/{number}" for number in range(101)])
            # It may be only this node that is not there yet, so that it is asked again for a while.
            with pytest.raises(PublishTimeout, match="behind: /a/1 has not come so far here yet"):
                contents(reader, Range("/a/1", (1, 1)))
            assert reader.positions(["/a/*"]) == {}
        with Reader(sidecar.publisher_url, "no token") as reader, pytest.raises(ConnectionRejected, match="4501"):
            reader.positions(["/a/*"])


def test_another_node_is_asked_when_one_is_away_or_behind(sidecar: Sidecar) -> None:
    publish(sidecar, ["/two/a", "x"])
    with Sidecar() as behind:
        urls = f"127.0.0.1:1,{behind.publisher_url},{sidecar.publisher_url}"
        with Reader(urls) as reader:
            assert reader.positions(["/two/*"]) == {}
            with Reader(sidecar.publisher_url) as other:
                head = other.positions(["/two/*"])["/two/a"]
            assert contents(reader, Range("/two/a", None, (head.epoch, head.seq))) == [["x"]]
