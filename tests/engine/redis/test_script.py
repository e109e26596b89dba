"""What the script does to Redis: numbers, retries, epochs, snapshots, and nothing at all when it is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import msgspec
import pytest
import redis

from fastpath.core.broker.admission import Outcome
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.redis import script as redis_script
from fastpath.engine.redis.entries import (
    GROUPS,
    VERSION,
    SnapshotParts,
    group_of,
    log_key,
    meta_key,
    positions_key,
    snapshots_key,
)
from fastpath.engine.redis.script import Stored
from tests.support.engine.redis_load import PREFIX, entries
from tests.support.redis import RedisServer
from tests.support.redis_servers import SYNCED

pytestmark = pytest.mark.redis

GROUP_OF_A = group_of("/s/a")


class Scripted:
    """A server, and the script run on it as one node would."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.known = 0
        self.own = 0
        self.last: Stored | None = None
        self.connect()

    def connect(self) -> None:
        self.client = redis.Redis("127.0.0.1", port=self.server.port, protocol=2)
        self.client.script_load(redis_script.SCRIPT)

    def run(self, *messages: Message, log_messages: int = 1000, snapshots: bool = True) -> list[Outcome]:
        """Store a batch."""
        packed = redis_script.pack(messages, "node:test", self.own + 1, snapshots)
        self.own += len(messages)
        return self.send(messages, packed, log_messages)

    def send(
        self, messages: tuple[Message, ...], packed: tuple[bytes, bytes], log_messages: int = 1000
    ) -> list[Outcome]:
        """Store a batch that was packed before."""
        command = redis_script.command(PREFIX, self.known, log_messages, packed)
        self.last = redis_script.read(self.client.execute_command(*command))
        self.known = self.last.epoch
        return redis_script.settle(messages, self.last)

    def snapshot(self, subject: str) -> tuple[object, object, object]:
        """Content, fields and position of the snapshot."""
        parts = SnapshotParts(0)
        for name, value in self.client.hgetall(snapshots_key(PREFIX, group_of(subject))).items():
            parts.add(name, value)
        snapshot = parts.take()[subject]
        return snapshot.newest.content, snapshot.fields, (snapshot.newest.epoch, snapshot.newest.seq)

    def removed(self, subject: str) -> bool:
        """Whether the snapshot says that the subject was removed."""
        parts = SnapshotParts(0)
        parts.add(subject.encode(), self.client.hget(snapshots_key(PREFIX, group_of(subject)), subject))
        return parts.take()[subject].removed

    @property
    def epoch(self) -> int:
        return int(self.client.hget(meta_key(PREFIX), "epoch"))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with RedisServer(options=SYNCED) as server:
        yield Scripted(server)


def by(publisher: str, number: int, subject: str = "/s/a", content: str = "x") -> Message:
    return Message(subject, content, publisher=publisher, publication=number)


def test_every_subject_is_numbered_by_itself(scripted: Scripted) -> None:
    messages = [Message(subject, "x") for subject in ("/s/a", "/s/b", "/s/a", "/s/c", "/s/a")]
    assert scripted.run(*messages) == [1, 1, 2, 1, 3]
    assert scripted.run(Message("/s/b", "x"), Message("/s/a", "x")) == [2, 4]
    assert [(m.epoch, m.seq) for m in messages] == [(scripted.epoch, seq) for seq in (1, 1, 2, 1, 3)]
    assert scripted.client.hget(positions_key(PREFIX, GROUP_OF_A), "/s/a") == f"{scripted.epoch}-4".encode()


def test_the_log_holds_all_of_a_message(scripted: Scripted) -> None:
    message = Message(
        "/s/ä",
        b"\x00\xff",
        {"bid": "1", "raw": b"\x80"},
        retained=False,
        reply_to="/s/r",
        closure="c",
        as_of="2026",
        publisher="5:alice:p",
        publication=7,
    )
    before = time.time_ns() // 1_000_000
    scripted.run(message)
    (((place, found, fields),),) = [log for log in entries(scripted.server) if log]
    assert place == (scripted.epoch, 1)
    assert list(fields) == [b"s", b"q", b"t", b"p", b"prev"]
    assert before <= found.time <= time.time_ns() // 1_000_000
    assert found.time == message.time
    names = ("subject", "content", "fields", "retained", "reply_to", "closure", "as_of", "publisher", "publication")
    assert [getattr(found, name) for name in (*names, "epoch", "seq")] == [
        getattr(message, name) for name in (*names, "epoch", "seq")
    ]


def test_a_batch_that_comes_too_late_is_not_stored(scripted: Scripted) -> None:
    packed = redis_script.pack([Message("/s/a", "x")], "node:test", 1, True)
    before = time.time_ns() // 1_000_000

    def send(until: int) -> Any:
        return scripted.client.execute_command(*redis_script.command(PREFIX, 0, 1000, packed, until))

    with pytest.raises(redis.ResponseError) as refused:
        send(before - 1)
    assert before <= redis_script.late(refused.value) <= time.time_ns() // 1_000_000
    assert redis_script.fault(refused.value)[0] is redis_script.ScriptFault.AGAIN
    assert not scripted.client.keys()
    assert redis_script.read(send(before + 60_000)).answers == [1]


def test_the_trace_of_a_message_stands_behind_all_that_others_read(scripted: Scripted) -> None:
    """Where an entry is the first of its epoch or of its batch, and where it is not; others have nothing there."""
    traces = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2, 3)]
    one, plain, two = Message("/s/a", "1"), Message("/s/a", "2"), Message("/s/a", "3", {"f": "v"})
    one.traceparent, two.traceparent = traces[:2]
    assert scripted.run(one, plain, two) == [1, 2, 3]
    last = Message("/s/a", "4")
    last.traceparent = traces[2]
    assert scripted.run(last) == [4]
    (log,) = [log for log in entries(scripted.server) if log]
    assert [found.traceparent for _, found, _ in log] == [traces[0], None, traces[1], traces[2]]
    assert [found.content for _, found, _ in log] == ["1", "2", "3", "4"]
    usual = [b"s", b"q", b"t", b"p"]
    assert [list(fields) for *_, fields in log] == [[*usual, b"c", b"prev"], usual, [*usual, b"c"], [*usual, b"c"]]
    assert [found.plain for _, found, _ in log] == [False, True, False, False]


def test_numbers_of_nodes_are_not_shown(scripted: Scripted) -> None:
    scripted.run(Message("/s/a", "x"))
    (((_, found, _),),) = [log for log in entries(scripted.server) if log]
    assert (found.publisher, found.publication) == (None, 0)


def test_standard_quality_goes_through_the_log_without_a_number(scripted: Scripted) -> None:
    standard = Message("/s/a", "2", qos=STANDARD, publisher="5:alice:p", publication=1)
    assert scripted.run(Message("/s/a", "1"), standard, Message("/s/a", "3")) == [1, 0, 2]
    assert [found.seq for _, found, _ in entries(scripted.server)[GROUP_OF_A]] == [1, 0, 2]
    assert scripted.run(by("5:alice:p", 1)) == [3], "the number of a standard publication does not count"
    scripted.run(Message("/s/b", "y", qos=STANDARD))
    assert scripted.snapshot("/s/b") == ("y", None, (0, 0))


def test_a_retry_is_answered_with_its_first_position(scripted: Scripted) -> None:
    first = scripted.run(by("p", 1), by("p", 2, "/s/b"), by("p", 3))
    assert first == [1, 1, 2]
    again = (by("p", 2, "/s/b"), by("p", 3), by("p", 4))
    assert scripted.run(*again) == [(scripted.epoch, 1), (scripted.epoch, 2), 3]
    assert [(m.epoch, m.seq) for m in again] == [(scripted.epoch, seq) for seq in (1, 2, 3)]
    assert sum(map(len, entries(scripted.server))) == 4


def test_a_batch_that_is_sent_again_is_stored_once(scripted: Scripted) -> None:
    messages = (Message("/s/a", "1"), by("p", 9), Message("/s/a", "2", qos=STANDARD), Message("/s/b", "3"))
    packed = redis_script.pack(messages, "node:test", 1, True)
    assert scripted.send(messages, packed) == [1, 2, 0, 1]
    ends = scripted.last and scripted.last.ends
    assert scripted.send(messages, packed) == [(scripted.epoch, 1), (scripted.epoch, 2), 0, (scripted.epoch, 1)]
    assert scripted.last is not None
    assert scripted.last.ends == ends == {GROUP_OF_A: 3, group_of("/s/b"): 1}
    assert sum(map(len, entries(scripted.server))) == 4


def test_a_retry_within_one_batch_is_found(scripted: Scripted) -> None:
    assert scripted.run(by("p", 1), by("p", 2), by("p", 1), by("p", 2), by("p", 3)) == [
        1,
        2,
        (scripted.epoch, 1),
        (scripted.epoch, 2),
        3,
    ]


def test_a_number_that_was_left_out_is_out_of_order(scripted: Scripted) -> None:
    scripted.run(by("p", 1), by("p", 2))
    scripted.run(by("p", 5))
    assert [outcome[0] for outcome in scripted.run(by("p", 3), by("p", 4)) if isinstance(outcome, tuple)] == [
        "out_of_order"
    ] * 2
    assert scripted.run(by("p", 5), by("p", 6)) == [(scripted.epoch, 3), 4]


def test_what_is_not_remembered_any_more_is_stale(scripted: Scripted) -> None:
    scripted.run(by("p", 1), by("q", 1))
    for key in scripted.client.keys(f"{PREFIX}:d:*"):
        assert 180 < scripted.client.ttl(key) <= 240
        scripted.client.delete(key)  # as after that time
    assert scripted.run(by("p", 1))[0][0] == "stale"  # type: ignore[index]
    scripted.run(by("p", 10))
    assert scripted.run(by("p", 9))[0][0] == "stale"  # type: ignore[index]
    assert scripted.run(by("p", 10), by("p", 11)) == [(scripted.epoch, 3), 4]


def test_a_retry_is_found_among_very_many(scripted: Scripted) -> None:
    for number in range(1, 1200):
        scripted.run(by("p", number * 2))
    first = scripted.epoch
    assert scripted.run(by("p", 2), by("p", 300), by("p", 301), by("p", 2398), by("p", 2000)) == [
        (first, 1),
        (first, 150),
        ("out_of_order", redis_script.REASONS[b"out_of_order"]),
        (first, 1199),
        (first, 1000),
    ]


def test_large_numbers_of_publishers_are_exact(scripted: Scripted) -> None:
    top = 1 << 53
    assert scripted.run(by("p", top - 1), by("p", top)) == [1, 2]
    assert scripted.run(by("p", top - 1), by("p", top)) == [(scripted.epoch, 1), (scripted.epoch, 2)]


def test_a_publisher_is_known_over_midnight(scripted: Scripted) -> None:
    scripted.run(by("p", 5))
    (key,) = scripted.client.keys(f"{PREFIX}:p:*")
    day = int(key.rpartition(b":")[2])
    scripted.client.rename(key, f"{PREFIX}:p:{day - 1}")
    assert scripted.run(by("p", 5)) == [(scripted.epoch, 1)]
    assert 86_400 < scripted.client.ttl(f"{PREFIX}:p:{day - 1}") <= 172_800


def test_a_clock_that_goes_back_forgets_nobody(scripted: Scripted) -> None:
    ahead = int(time.time() // 60) + 5000  # more than three days: as another primary's clock had it
    scripted.client.hset(meta_key(PREFIX), "minute", ahead)
    scripted.run(by("p", 5))
    assert scripted.client.exists(f"{PREFIX}:p:{ahead // 1440}", f"{PREFIX}:d:{ahead}:p") == 2
    assert scripted.run(by("p", 5), by("p", 6)) == [(scripted.epoch, 1), 2]


def test_a_new_data_set_begins_with_the_time(scripted: Scripted) -> None:
    scripted.run()
    assert abs(scripted.epoch - time.time()) < 10
    assert scripted.client.hmget(meta_key(PREFIX), "groups", "version") == [str(GROUPS).encode(), str(VERSION).encode()]


def test_a_restart_is_a_new_epoch_and_says_what_was_before(scripted: Scripted) -> None:
    scripted.run(Message("/s/a", "1"), Message("/s/a", "2"))
    before = scripted.epoch
    scripted.server.restart()
    scripted.connect()
    scripted.run()
    assert scripted.epoch == before + 1, "also without messages"
    assert scripted.run(Message("/s/a", "3"), Message("/s/a", "4")) == [3, 4]
    log = entries(scripted.server)[GROUP_OF_A]
    assert [place for place, _, _ in log] == [(before, 1), (before, 2), (before + 1, 1), (before + 1, 2)]
    assert [fields.get(b"prev") for _, _, fields in log] == [b"0-0", None, f"{before}-2".encode(), None]


def test_a_retry_after_a_restart_keeps_its_epoch(scripted: Scripted) -> None:
    scripted.run(by("p", 1))
    before = scripted.epoch
    scripted.server.restart()
    scripted.connect()
    assert scripted.run(by("p", 1), by("p", 2)) == [(before, 1), 2]


def test_the_epoch_rises_above_what_a_node_has_seen(scripted: Scripted) -> None:
    scripted.run(Message("/s/a", "1"))
    scripted.known = scripted.epoch + 1000
    scripted.run(Message("/s/a", "2"))
    assert scripted.epoch == scripted.known
    assert [m.epoch for _, m, _ in entries(scripted.server)[GROUP_OF_A]] == [scripted.epoch - 1001, scripted.epoch]


def test_logs_are_trimmed(scripted: Scripted) -> None:
    for _ in range(30):
        scripted.run(*(Message("/s/a", "x") for _ in range(100)), log_messages=500)
    assert 500 <= scripted.client.xlen(log_key(PREFIX, GROUP_OF_A)) <= 800
    end = scripted.client.hget(meta_key(PREFIX), f"l{GROUP_OF_A}")
    assert end == f"{scripted.epoch}-3000".encode()


def test_the_snapshot_is_merged(scripted: Scripted) -> None:
    for content, fields in (("193", {"volume": "6.62M"}), ("192", None), ("195", {"ask": "190"})):
        scripted.run(Message("/s/a", content, fields))
    scripted.run(
        Message("/s/a", "193", {"bid": "194", "ask": "191"}),
        Message("/s/a", "999", {"ask": "999"}, retained=False),
        Message("/s/b", b"\x80"),
    )
    assert scripted.snapshot("/s/a") == ("193", {"volume": "6.62M", "bid": "194", "ask": "191"}, (scripted.epoch, 4))
    assert scripted.snapshot("/s/b") == (b"\x80", None, (scripted.epoch, 1))


def test_what_replaces_leaves_no_field_of_before(scripted: Scripted) -> None:
    """In the batch and in later ones; the names of before are taken out, but for those that were there before the first
    time, which count no more."""
    scripted.run(Message("/s/a", "1", {"old": "1", "a": "1"}), Message("/s/b", "1", {"b": "1"}))
    scripted.run(
        Message("/s/a", "2", {"a": "2", "gone": "2"}),
        Message("/s/a", "3", {"a": "3", "c": "3"}, replace=True),
        Message("/s/a", "4", {"d": "4"}),
    )
    assert scripted.snapshot("/s/a")[:2] == ("4", {"a": "3", "c": "3", "d": "4"})
    scripted.run(Message("/s/a", "5", {"old": "5"}), Message("/s/b", "2", {"c": "2"}))
    assert scripted.snapshot("/s/a")[1] == {"a": "3", "c": "3", "d": "4", "old": "5"}
    assert scripted.snapshot("/s/b")[1] == {"b": "1", "c": "2"}
    scripted.run(by("p", 1, content="6"))
    scripted.run(Message("/s/a", "7", {"e": "7"}, replace=True))
    assert scripted.snapshot("/s/a")[:2] == ("7", {"e": "7"})
    scripted.run(by("p", 1, content="6"))  # a retry changes nothing
    assert scripted.snapshot("/s/a")[:2] == ("7", {"e": "7"})
    scripted.run(Message("/s/a", "8", replace=True))
    assert scripted.snapshot("/s/a")[:2] == ("8", None)
    for number in range(50):
        scripted.run(Message("/s/a", "9", {f"name{number}": "x"}, replace=True))
    assert scripted.snapshot("/s/a")[1] == {"name49": "x"}
    names = [name for name in scripted.client.hkeys(snapshots_key(PREFIX, GROUP_OF_A)) if name.startswith(b"/s/a")]
    assert sorted(names) == [b"/s/a", b"/s/a\0", b"/s/a\0name49"]


def test_a_removal_leaves_nothing_and_fields_that_the_node_knows_are_taken_out(scripted: Scripted) -> None:
    """In the batch and in later ones; what comes behind it in the batch is all there is then."""
    known = {"/s/a": ("old", "a"), "/s/b": ()}

    def run(*messages: Message) -> list[Outcome]:
        packed = redis_script.pack(
            messages, "node:test", scripted.own + 1, True, lambda subject: known.get(subject, ())
        )
        scripted.own += len(messages)
        return scripted.send(messages, packed)

    def names(subject: str) -> list[bytes]:
        found = scripted.client.hkeys(snapshots_key(PREFIX, group_of(subject)))
        return sorted(name for name in found if name.startswith(subject.encode()))

    def removal(subject: str, **more: Any) -> Message:
        return Message(subject, "", replace=True, removed=True, **more)

    run(Message("/s/a", "1", {"old": "1", "a": "1"}), Message("/s/b", "1", {"b": "1"}))
    assert run(Message("/s/a", "2", {"new": "2"}), removal("/s/a"), removal("/s/b", qos=STANDARD)) == [2, 3, 0]
    for subject, seq in (("/s/a", 3), ("/s/b", 0)):
        assert scripted.removed(subject)
        assert scripted.snapshot(subject) == ("", None, (scripted.epoch if seq else 0, seq))
    assert names("/s/a") == [b"/s/a", b"/s/a\0"]
    assert names("/s/b") == [b"/s/b", b"/s/b\0", b"/s/b\0b"], "this node did not know of it; it counts no more"
    run(Message("/s/b", "2", {"c": "2"}))
    assert scripted.snapshot("/s/b")[:2] == ("2", {"c": "2"})
    message = removal("/s/a", publisher="p", publication=1)
    assert run(message, Message("/s/a", "3", {"a": "3"})) == [4, 5]
    assert scripted.snapshot("/s/a")[:2] == ("3", {"a": "3"})
    run(message)  # a retry changes nothing
    assert scripted.snapshot("/s/a")[:2] == ("3", {"a": "3"})
    assert names("/s/a") == [b"/s/a", b"/s/a\0", b"/s/a\0a"]
    scripted.run(removal("/s/a"), snapshots=False)
    assert scripted.snapshot("/s/a")[:2] == ("3", {"a": "3"}), "nobody wants snapshots"


def test_a_batch_names_the_fields_of_a_removed_subject_once(scripted: Scripted) -> None:
    """However often it removes the subject; those that are set between, and had been there before, are gone as well."""
    names = [f"field{number}" for number in range(500)]
    scripted.run(Message("/s/a", "1", dict.fromkeys(names, "1")))
    removals = [Message("/s/a", "", replace=True, removed=True) for _ in range(40)]
    batch = (*removals[:20], Message("/s/a", "2", {names[0]: "2"}), *removals[20:])
    table, blob = redis_script.pack(batch, "node:test", scripted.own + 1, True, lambda subject: names)
    assert len(table) < 2 * sum(map(len, names))
    scripted.own += len(batch)
    assert scripted.send(batch, (table, blob)) == list(range(2, 43))
    assert sorted(scripted.client.hkeys(snapshots_key(PREFIX, GROUP_OF_A))) == [b"/s/a", b"/s/a\0"]
    assert scripted.removed("/s/a")


def test_a_retry_of_what_replaces_is_stored_once(scripted: Scripted) -> None:
    message = Message("/s/a", "1", {"a": "1"}, publisher="p", publication=1, replace=True)
    scripted.run(message)
    scripted.run(Message("/s/a", "2", {"b": "2"}))
    scripted.run(message)
    assert scripted.snapshot("/s/a")[:2] == ("2", {"a": "1", "b": "2"})
    scripted.run(message, Message("/s/a", "3", {"c": "3"}))
    assert scripted.snapshot("/s/a")[:2] == ("3", {"a": "1", "b": "2", "c": "3"})


def test_a_retry_does_not_change_the_snapshot(scripted: Scripted) -> None:
    scripted.run(by("p", 1, content="old"))
    scripted.run(by("p", 2, content="new"))
    scripted.run(by("p", 1, content="old"), Message("/s/b", "other", {"a": "1"}))
    assert scripted.snapshot("/s/a")[0] == "new"
    assert scripted.snapshot("/s/b") == ("other", {"a": "1"}, (scripted.epoch, 1))


def test_snapshots_can_be_off(scripted: Scripted) -> None:
    scripted.run(Message("/s/a", "1", {"f": "1"}), snapshots=False)
    assert not scripted.client.keys(f"{PREFIX}:n:*")


def test_a_snapshot_of_very_many_fields_is_stored(scripted: Scripted) -> None:
    fields = {f"f{n}": str(n) for n in range(9000)}
    scripted.run(Message("/s/a", "x", fields))
    assert scripted.snapshot("/s/a")[1] == fields


def test_a_full_redis_stores_nothing_of_a_batch(scripted: Scripted) -> None:
    scripted.run(by("p", 1))
    scripted.client.config_set("maxmemory", "1mb")
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        scripted.run(by("p", 2), Message("/s/b", "y"))
    scripted.client.config_set("maxmemory", "100mb")
    assert sum(map(len, entries(scripted.server))) == 1
    assert scripted.run(by("p", 2), Message("/s/b", "y")) == [2, 1]


def test_a_key_of_another_type_stores_nothing_of_a_batch_and_stops_nothing_for_good(scripted: Scripted) -> None:
    """Whichever it is: Redis takes nothing back of a script that fails, and who wrote first could never go on."""
    scripted.run(by("p", 1), by("p2", 1, "/s/b"))
    messages = 1
    for key in sorted(scripted.client.keys(f"{PREFIX}:*")):
        if key == meta_key(PREFIX).encode():
            continue
        kept = scripted.client.dump(key)
        scripted.client.delete(key)
        scripted.client.set(key, "of somebody else")
        before = {other: scripted.client.dump(other) for other in scripted.client.keys("*")}
        messages += 1
        try:
            scripted.run(by("p", messages), by("p2", messages, "/s/b"))
        except redis.ResponseError as error:
            assert "WRONGTYPE" in str(error)
        else:
            assert b":d:" in key and len(scripted.client.keys(f"{PREFIX}:d:*")) > 2, "none but that of a minute ago"
            return
        assert {other: scripted.client.dump(other) for other in scripted.client.keys("*")} == before, key
        scripted.client.delete(key)
        scripted.client.restore(key, 60_000, kept)
        assert scripted.run(by("p", messages), by("p2", messages, "/s/b")) == [messages, messages], key


def test_every_run_writes(scripted: Scripted) -> None:
    """Else a WAIT after a retry would not wait for what the first run has stored."""
    scripted.run(by("p", 1))
    for messages in ((), (by("p", 1),), (by("p", 0),)):
        before = scripted.client.info("replication")["master_repl_offset"], changes(scripted)
        scripted.run(*messages)
        assert (scripted.client.info("replication")["master_repl_offset"], changes(scripted)) > before


def changes(scripted: Scripted) -> int:
    return int(scripted.client.info("persistence")["rdb_changes_since_last_save"])


def test_another_version_is_refused(scripted: Scripted) -> None:
    scripted.run()
    scripted.client.hset(meta_key(PREFIX), "groups", 32)
    with pytest.raises(redis.ResponseError, match="FASTPATH the data in Redis is of version 1 with 32 groups"):
        scripted.run(Message("/s/a", "x"))
    assert not scripted.client.exists(log_key(PREFIX, GROUP_OF_A))


PLAIN = """
for at = 1, 1000 do
    redis.call("XADD", KEYS[at % 16 + 1], "*", "s", ARGV[1], "q", at, "t", at, "p", ARGV[2])
    redis.call("HSET", KEYS[17], ARGV[1] .. at % 300, ARGV[2])
end
"""
"""The least that a thousand messages can cost: each an entry of a log and a field of a hash."""

PLAIN_TIMES_MAX = 4


@pytest.mark.slow
def test_what_a_thousand_messages_take(scripted: Scripted) -> None:
    """Beside a script that only writes as many entries, on the same server, in turn."""
    messages = [Message(f"/s/{n % 300}", "x" * 200, {"bid": "1"}) for n in range(1000)]
    keys = [f"plain:{n}" for n in range(17)]

    def used() -> float:
        """CPU seconds of the server so far: what else the machine does is not in them."""
        figures = scripted.client.info("cpu")
        return float(figures["used_cpu_user"]) + float(figures["used_cpu_sys"])

    def spent(run: Callable[[], object]) -> float:
        before = used()
        run()
        return used() - before

    def once() -> tuple[float, float]:
        ours = spent(lambda: scripted.run(*messages))
        return ours, spent(lambda: scripted.client.eval(PLAIN, len(keys), *keys, "/s/", "x" * 220))

    once()
    ours, plain = zip(*[once() for _ in range(7)], strict=True)
    assert median(ours) < PLAIN_TIMES_MAX * median(plain), (ours, plain)


def test_the_table_is_what_the_script_says_it_takes() -> None:
    messages = [by("p", 4, "/s/a", "ab"), Message("/s/a", "c", {"f": "dd"}, qos=STANDARD)]
    table, data = redis_script.pack(messages, "node:x", 11, True)
    groups, version, used, subjects, publishers, rows, replaces, traces = msgspec.msgpack.decode(table)
    assert (groups, version, used, subjects) == (GROUPS, VERSION, [GROUP_OF_A, 1], ["/s/a"])
    assert traces is False
    assert publishers == ["p", "node:x"]
    assert [rows[at] for at in (0, 2, 3, 4, 5)] == [1, 3, False, 1, 4]
    assert [rows[at] for at in (7, 9, 10, 11, 12, 13)] == [-1, 2, ["f", 3], 2, 11, False]
    assert not replaces
    assert data.endswith(b"tctdd")
