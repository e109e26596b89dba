"""Reading on the publisher port: how far subjects have come, messages between positions, rights, hostile peers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.edge.publishers import positions as edge_positions
from fastpath.edge.publishers.ranges import Ranges
from tests.support.edge.lives import Life
from tests.support.edge.rules import rule, ruled
from tests.support.edge.wire import Ended, WireClient, WirePublisher, packed, resident_bytes, undisturbed
from tests.support.hook import Answering, named
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until

WAIT_MS = 5000


@pytest.fixture
def peer(shared: Sidecar) -> Iterator[WirePublisher]:
    """Somebody who publishes and reads."""
    with WirePublisher(shared) as publisher:
        yield publisher


def positions(peer: WirePublisher, *patterns: str, number: int = 1, **options: Any) -> dict[str, list[Any]] | list[Any]:
    """What the answer says by subject, or the refusal."""
    peer.packet("positions", number, list(patterns), options)
    return told(peer, number)


def told(peer: WirePublisher, number: int = 1) -> Any:
    """The answer to a question about positions."""
    found: dict[str, list[Any]] = {}
    while True:
        frame = peer.next()
        assert frame[1] == number
        if frame[0] == "positions":
            assert frame[2] == len(found)
            return found
        if frame[0] == "failed":
            return frame[2:]
        assert frame[0] == "position"
        found |= {row[0]: row[1:] for row in frame[2]}


def read(peer: WirePublisher, *ranges: list[Any], number: int = 1) -> list[Any]:
    """All runs of the answer, then its last frame."""
    peer.packet("read", number, list(ranges))
    runs: list[Any] = []
    while True:
        frame = peer.next()
        assert frame[1] == number
        if frame[0] != "rows":
            return [*runs, frame]
        runs += frame[2]


def contents(answer: list[Any]) -> list[Any]:
    """The contents in all runs of an answer."""
    return [content for run in answer[:-1] if len(run) > 4 for content in run[4]]


def test_positions_of_what_is_there_and_then_of_what_went_on(peer: WirePublisher) -> None:
    peer.publish(["/n/a/1", "x"], ["/n/a/2", "x"], ["/n/a/1", "y"], ["/n/b", "x"])
    first = positions(peer, "/n/a/*", "/n/b", "/n/none", news=True)
    epoch = first["/n/b"][0]
    assert first == {"/n/a/1": [epoch, 2, 1], "/n/a/2": [epoch, 1, 1], "/n/b": [epoch, 1, 1]}
    assert positions(peer, "/n/a/*", "/n/b", "/n/none", news=True) == {}
    peer.publish(["/n/a/2", "z"], ["/n/c", "z"])
    assert positions(peer, "/n/a/*", "/n/b", "/n/none", news=True) == {"/n/a/2": [epoch, 2, 1]}
    # Another question, and the same one asked anew, begin from the start.
    assert positions(peer, "/n/a/2") == {"/n/a/2": [epoch, 2, 1]}
    assert len(positions(peer, "/n/a/*", "/n/b", "/n/none")) == 3


def test_it_waits_for_news_and_subjects_that_appear(shared: Sidecar, peer: WirePublisher) -> None:
    assert positions(peer, "/w/**", news=True) == {}
    assert positions(peer, "/w/**", news=True, wait_ms=50) == {}
    peer.packet("positions", 3, ["/w/**"], {"news": True, "wait_ms": WAIT_MS})
    with WirePublisher(shared) as other:
        other.publish(["/other/one", "not asked about"])
        other.publish(["/w/new/one", "x"])
        assert list(told(peer, 3)) == ["/w/new/one"]
    assert positions(peer, "/w/**", news=True) == {}


def test_the_servers_own_subjects_are_asked_for_by_name(peer: WirePublisher) -> None:
    found = positions(peer, "/**")
    assert not [subject for subject in found if subject.startswith("/__sys__/")]


def test_where_subjects_stood_at_a_time(shared: Sidecar, peer: WirePublisher) -> None:
    peer.publish(["/t/a", "1"], ["/t/a", "2"])
    [_, _, _, times, *_], _ = read(peer, ["/t/a"])
    later = times[-1] + 1
    until(lambda: read(peer, ["/t/clock"]) and peer.publish(["/t/clock", "x"]) and clock(peer) > later)
    peer.publish(["/t/a", "3"])
    found = positions(peer, "/t/a", time=later)
    assert found["/t/a"][3] == [found["/t/a"][0], 2]
    assert positions(peer, "/t/a", time=0)["/t/a"][3] is None


def clock(peer: WirePublisher) -> int:
    """The time of the newest message there."""
    return int(read(peer, ["/t/clock"])[-2][3][-1])


def test_messages_between_positions(peer: WirePublisher) -> None:
    peer.publish(*[["/r/a", str(number), {"x": str(number)} if number % 2 else None] for number in range(6)])
    peer.publish(["/r/b", b"\x00", {"y": b"\x01"}, {"closure": "c", "as_of": 5, "retained": False}])
    epoch = positions(peer, "/r/a")["/r/a"][0]
    one, two, end = read(peer, ["/r/a", [epoch, 2], [epoch, 5]], ["/r/b", None, None])
    assert [*one[:3], one[4], *one[5:]] == [0, 3, epoch, ["2", "3", "4"], {"x": [None, "3", None]}, None]
    assert two[4:] == [[b"\x00"], {"y": [b"\x01"]}, {0: {"retained": False, "closure": "c", "as_of": 5}}]
    assert end == ["read", 1, 4]
    # Nothing lies between, nobody has published: no run.
    assert read(peer, ["/r/a", [epoch, 6], [epoch, 6]], ["/r/nobody"]) == [["read", 1, 0]]


def test_many_messages_come_in_order_and_frames_are_bounded(peer: WirePublisher) -> None:
    for start in range(0, 900, 300):
        peer.publish(*[["/m/a", f"{number:04}" + "x" * 2000] for number in range(start, start + 300)])
    peer.packet("read", 1, [["/m/a"]])
    got: list[str] = []
    sizes = []
    while True:
        data = peer.read(int.from_bytes(peer.read(4)))
        sizes.append(len(data))
        frame = unpacked(data)
        if frame[0] == "read":
            break
        got += [content[:4] for run in frame[2] for content in run[4]]
    assert got == [f"{number:04}" for number in range(900)]
    assert max(sizes) < 300_000


def unpacked(data: bytes) -> Any:
    """A frame's parts."""
    return msgspec.msgpack.decode(data)


def test_fields_of_which_no_two_messages_have_the_same(peer: WirePublisher) -> None:
    rows = [["/wide/a", str(n), {f"n{n}-{i}": "v" for i in range(200)}, {"retained": False}] for n in range(300)]
    for start in range(0, 300, 50):
        peer.publish(*rows[start : start + 50])
    answer = read(peer, ["/wide/a"])
    assert contents(answer) == [row[1] for row in rows]
    seen = [
        {name: column[at] for name, column in run[5].items() if column[at] is not None}
        for run in answer[:-1]
        for at in range(len(run[3]))
    ]
    assert seen == [row[2] for row in rows]


def test_what_was_evicted_is_told_where_it_is_missed() -> None:
    with Sidecar(cache_messages=3) as sidecar, WirePublisher(sidecar) as peer:
        peer.publish(*[["/e/a", str(number)] for number in range(8)])
        epoch = positions(peer, "/e/a")["/e/a"][0]
        lost, run, end = read(peer, ["/e/a", [epoch, 2], [epoch, 7]])
        assert lost == [0, 3, 5, "evicted"]
        assert (run[1], run[4], end[2]) == (6, ["5", "6"], 2)
        assert positions(peer, "/e/a") == {"/e/a": [epoch, 8, 6]}
        assert read(peer, ["/e/a"])[0][4] == ["5", "6", "7"]  # the oldest there is, whatever was before it
        assert read(peer, ["/e/a", [epoch, 7], [epoch, 9]]) == [
            ["failed", 1, "behind", "/e/a has not come so far here yet"]
        ]
        assert read(peer, ["/e/a", [epoch, 8], [epoch + 1, 1]])[0][2] == "behind"


def test_positions_stand_after_a_restart(tmp_path: Any) -> None:
    with Sidecar(journal="interval", data=tmp_path) as sidecar:
        with WirePublisher(sidecar) as peer:
            peer.publish(*[["/e/a", str(number)] for number in range(4)])
            epoch = positions(peer, "/e/a")["/e/a"][0]
        sidecar.kill()
        sidecar.start()
        with WirePublisher(sidecar) as peer:
            peer.publish(["/e/a", "4"])
            now, seq, first = positions(peer, "/e/a")["/e/a"]
            assert (now >= epoch, seq, first) == (True, 5, 1)
            run, _ = read(peer, ["/e/a", [epoch, 2], [now, seq]])
            assert (run[1], run[4]) == (3, ["2", "3", "4"])


def test_what_another_epoch_numbered_again_is_told() -> None:
    """The sidecar comes back with nothing of what it had."""
    with Sidecar(journal="off") as sidecar:
        with WirePublisher(sidecar) as peer:
            peer.publish(["/e/a", "0"], ["/e/a", "1"])
            epoch = positions(peer, "/e/a")["/e/a"][0]
        sidecar.kill()
        sidecar.start()
        with WirePublisher(sidecar) as peer:
            peer.publish(*[["/e/a", str(number)] for number in range(7, 10)])
            now = positions(peer, "/e/a")["/e/a"][0]
            lost, run, end = read(peer, ["/e/a", [epoch, 2], [now, 3]])
            assert (lost, run[4], end[2]) == ([0, 1, 2, "replaced"], ["7", "8", "9"], 3)


# Rights


def test_only_what_may_be_read() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        with WirePublisher(sidecar, mint_jwt("all", both=["/**"])) as writer:
            writer.publish(["/may/a", "1"], ["/not/a", "1"])
        with WirePublisher(sidecar, mint_jwt("some", subscribe=["/may/*"], publish=["/not/*"])) as peer:
            assert list(positions(peer, "/**")) == ["/may/a"]
            assert positions(peer, "/may/a", "/not/a")[0] == "denied"
            assert read(peer, ["/not/a"])[-1] == ["failed", 1, "denied", "/not/a: no permission in the token covers it"]
            # What stands before the refused range has been told.
            assert contents(read(peer, ["/may/a"], ["/not/a"])) == ["1"]


def test_rights_follow_while_it_reads() -> None:
    with ruled(rule(1, "/a/**"), rule(2, "/b/**")) as rights:
        rights.publish(["/a/1", "x"], ["/b/1", "x"], ["/c/1", "x"])
        with WirePublisher(rights.sidecar, mint("alice", generation=1)) as peer:
            assert set(positions(peer, "/**", news=True)) == {"/a/1", "/b/1"}
            rights.change(rule(3, "/c/**"), removed=[2])
            rights.publish(["/b/1", "y"], ["/a/1", "y"])
            # What may be read now is told without a message to it; of what may not nothing more.
            assert set(positions(peer, "/**", news=True)) == {"/a/1", "/c/1"}
            assert read(peer, ["/b/1"])[0][2] == "denied"
            rights.change(users=[user("alice", active=False)])
            with pytest.raises(Ended) as end:
                positions(peer, "/**", news=True, wait_ms=WAIT_MS)
            assert end.value.code == 4502


def user(name: str, **more: Any) -> dict[str, Any]:
    """A user as Django sends it, changed just now."""
    return {"uid": name, "user": name, "superuser": False, "groups": [], "generation": 99} | more


def test_a_long_answer_ends_where_the_right_ends() -> None:
    """The peer reads slowly, so that it is still being made then."""
    row = ["/a/long", "x" * 60_000]
    with ruled(rule(1, "/a/**")) as rights:
        for _ in range(30):
            rights.publish(*[row] * 10)
        with WirePublisher(rights.sidecar, mint("alice", generation=1), receive_bytes=4096) as peer:
            peer.packet("read", 1, [["/a/long"]])
            assert peer.next()[0] == "rows"
            rights.change(removed=[1])
            while (frame := peer.next())[0] == "rows":
                pass
            assert frame[:3] == ["failed", 1, "denied"]


def test_a_hook_is_asked_about_what_is_read() -> None:
    with (
        Sidecar(mode="custom") as sidecar,
        Answering(sidecar.control, lambda question: rule_of(question)),
        WirePublisher(sidecar, "ann") as peer,
    ):
        peer.publish(["/a/1", "x"], ["/b/1", "x"])
        assert until(lambda: positions(peer, "/**", news=True)) == {"/a/1": positions(peer, "/a/1")["/a/1"]}
        assert contents(until(lambda: ready(read(peer, ["/a/1"])))) == ["x"]
        assert until(lambda: ready(read(peer, ["/b/1"])))[0][2:] == ["denied", "/b/1: not today"]


def rule_of(question: dict[str, Any]) -> Any:
    """What is below /b may not be read."""
    if question["event"] == "subscribe":
        return {"verdicts": [[subject.startswith("/a/"), "not today"] for subject in question["subjects"]]}
    return named(question)


def ready(answer: list[Any]) -> list[Any] | None:
    """The answer, unless the hook is still being asked."""
    return None if answer[-1][2] == "not_ready" else answer


# What is wrong, or too much


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (("positions", 1), "positions is"),
        (("positions", 1, [], {}), "positions is"),
        (("positions", 1, ["/a/b", 5], {}), "positions is"),
        (("positions", 1, ["/a/b"], {"wait_ms": 5001}), "wait_ms is a number up to 5000"),
        (("positions", 1, ["/a/b"], {"wait_ms": "1"}), "wait_ms is a number up to 5000"),
        (("positions", 1, ["/a/b"], {"time": 1.5}), "wait_ms is a number up to 5000"),
        (("read", 1, ["/a/b"]), "read is"),
        (("read", 1, [["/a/b", [1]]]), "read is"),
        (("read", 1, [["/a/b", [1, "2"], None]]), "read is"),
        (("read", 1, [["/a/b", [-1, 0]]]), "read is"),
        (("read", 1, [[5]], {}), "read is"),
    ],
)
def test_malformed_questions_end_the_connection(shared: Sidecar, frame: tuple[Any, ...], reason: str) -> None:
    with undisturbed(shared), WirePublisher(shared) as peer:
        peer.packet(*frame)
        code, why = peer.closed()
        assert (code, why.startswith(f"bad_message: {reason}")) == (4500, True)


def test_questions_that_are_refused(peer: WirePublisher) -> None:
    assert positions(peer, *[f"/a/{number}" for number in range(101)]) == ["limit", "over 100 patterns"]
    assert positions(peer, "a") == ["invalid", "a: no leading slash"]
    assert positions(peer, "/a/**/b") == ["invalid", "/a/**/b: ** only as the last segment"]
    assert read(peer, *[["/a/b"]] * 2001) == [["failed", 1, "limit", "over 2000 ranges"]]
    assert read(peer, ["/a/*"]) == [["failed", 1, "invalid", "/a/*: reserved segment"]]
    huge = (1 << 63) - 1
    assert read(peer, ["/a/b", None, [huge, huge]])[0][2] == "behind"
    assert read(peer, ["/a/b", [huge, huge]])[0][2] == "behind"


def test_too_many_questions_at_a_time(shared: Sidecar) -> None:
    with undisturbed(shared), WirePublisher(shared) as peer:
        peer.packet("positions", 1, ["/wait/a"], {"news": True})
        assert peer.next() == ["positions", 1, 0]
        for number in range(2, 19):
            peer.packet("positions", number, ["/wait/a"], {"news": True, "wait_ms": WAIT_MS})
        assert peer.closed() == (4500, "bad_message: over 16 questions without an answer")


def test_who_does_not_read_the_answers_costs_nobody_anything(shared: Sidecar) -> None:
    with WirePublisher(shared) as writer:
        for _ in range(10):
            writer.publish(*[["/big/a", "x" * 10_000]] * 100)
    with undisturbed(shared), WirePublisher(shared, receive_bytes=4096) as deaf:
        before = resident_bytes(shared.pid)
        for number in range(16):
            deaf.packet("read", number, [["/big/a"]])
        with WirePublisher(shared) as other:
            assert len(contents(read(other, ["/big/a"]))) == 1000
            # 160 MB were asked for.
            assert resident_bytes(shared.pid) - before < 60 << 20


def test_many_subjects_are_told_in_frames(shared: Sidecar, peer: WirePublisher) -> None:
    for start in range(0, 30_000, 10_000):
        peer.publish(*[[f"/many/{number:05}", "x"] for number in range(start, start + 10_000)])
    with WireClient(shared) as client:
        peer.packet("positions", 1, ["/many/*"], {"news": True})
        client.quiet()
        found = told(peer)
    assert len(found) == 30_000
    peer.publish(["/many/00007", "y"])
    assert list(until(lambda: positions(peer, "/many/*", news=True))) == ["/many/00007"]


def test_a_frame_before_hello(shared: Sidecar) -> None:
    with WirePublisher(shared, hello=False) as peer:
        peer.send(packed("read", 1, [["/a/b"]]))
        assert peer.closed()[0] == 4500


def test_patterns_that_all_follow_together_are_bounded(shared: Sidecar, peer: WirePublisher) -> None:
    """Each subject that comes to be is compared with them."""
    others = [WirePublisher(shared) for _ in range(3)]
    patterns = [[f"/{name}/{number}/*" for number in range(100)] for name in "abcdefgh"]
    answers = [positions(other, *texts, news=True) for other in others for texts in patterns]
    assert answers.count({}) == 20
    assert [answer[0] for answer in answers if answer] == ["limit"] * 4
    for other in others:
        other.sock.close()
    assert until(lambda: positions(peer, *patterns[0], news=True) == {})
    peer.publish(["/a/7/new", "x"])
    assert list(positions(peer, *patterns[0], news=True)) == ["/a/7/new"]


def test_subjects_that_come_to_be_in_great_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who publishes them does not wait until they are compared with patterns; nobody who follows misses one."""
    monkeypatch.setattr(edge_positions, "NEW_MAX", 10)
    life = Life(tmp_path)
    life.runtime.serve(Ranges(life.runtime))

    def heads(number: int) -> set[str]:
        del life.wire.packets[:]
        life.say("positions", number, ["/many/*"], {"news": True})

        async def told() -> None:
            while not any(one[0] == "positions" for one in life.wire.packets):  # noqa: ASYNC110 - each turn counts
                await asyncio.sleep(0)

        life.loop.run_until_complete(asyncio.wait_for(told(), 30))
        return {row[0] for one in life.wire.packets if one[0] == "position" for row in one[2]}

    batch, none = 0, heads(1)
    for many in (3, 25, 4):  # few, more than are remembered, and few again
        names = {f"/many/{batch + one}" for one in range(many)}
        life.say("batch", batch + 1, [[name, "1"] for name in sorted(names)])
        batch += many
        assert heads(2) == names
        assert heads(3) == none == set()
    life.end()
