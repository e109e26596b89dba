"""The broker against a plain model: whoever comes, stalls, leaves or publishes, each gets exactly its own, in order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.auth.grants import Principal
from fastpath.core.broker.admission import Outcome
from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.codec import encode
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import STANDARD, Data, Message, Subscribe, Unsubscribe
from fastpath.core.wires.registry import wire_of
from tests.support.core.stage import Stage

NAMES = st.sampled_from(["ann", "bob", "carl"])
SUBJECTS = st.sampled_from(["/s/1", "/s/2", "/s/3"])
STEP = st.one_of(
    st.tuples(st.just("publish"), SUBJECTS, st.booleans()),
    st.tuples(st.just("subscribe"), NAMES, st.sets(SUBJECTS, min_size=1)),
    st.tuples(st.just("unsubscribe"), NAMES, st.sets(SUBJECTS, min_size=1)),
    st.tuples(st.just("stall"), NAMES, st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("leave"), NAMES, st.none()),
    st.tuples(st.just("end"), st.none(), st.none()),
)


SLOWLY = terms_of(wire_of("json", 15, 1), 20, 100)
WIRES = {
    "all alike": {},
    "all batched": dict.fromkeys(("ann", "bob", "carl"), SLOWLY),
    "mixed": {"ann": SLOWLY, "bob": SLOWLY, "carl": terms_of(wire_of("msgpack"), 50, 1000)},
}


@pytest.mark.parametrize("kind", WIRES)
@settings(max_examples=300, deadline=None)
@given(steps=st.lists(STEP, max_size=40))
def test_everyone_gets_exactly_its_own_in_order(kind: str, steps: list) -> None:
    """Publications and membership interleave within ticks (no ``end`` between) and across them."""
    stage = Stage()
    wanted: dict[str, list] = {}
    subscribed: dict[str, set] = {}
    sequences: dict[str, int] = {}
    snapshot: dict[str, int] = {}
    for what, who, more in steps:
        if what == "publish":
            stage.broker.publish(None, [Message(who, "x", retained=more)], stage.now)
            sequences[who] = sequences.get(who, 0) + 1
            if more:
                snapshot[who] = sequences[who]
            for name, subjects in subscribed.items():
                if who in subjects:
                    wanted[name].append((who, sequences[who], ""))
            continue
        if what == "end":
            stage.now += 9
            stage.end()
            continue
        if who not in stage.actors:
            stage.enter(who, terms=WIRES[kind].get(who))
            wanted[who], subscribed[who] = [], set()
        actor = stage.actors[who]
        if what == "subscribe":
            stage.sessions._do(actor.client, Subscribe(id=1, subjects=sorted(more)), stage.now)
            wanted[who] += [
                (subject, sequences[subject], "snapshot") for subject in sorted(more) if subject in snapshot
            ]
            subscribed[who] |= more
        elif what == "unsubscribe":
            stage.sessions._do(actor.client, Unsubscribe(id=1, subjects=sorted(more)), stage.now)
            subscribed[who] -= more
        elif what == "stall":
            actor.blocked = True
        elif what == "read":
            actor.unblock()
        elif what == "leave":
            stage.sessions.close(actor.client)
            del stage.actors[who], wanted[who], subscribed[who]
    stage.end()
    stage.advance(50)
    for name, actor in stage.actors.items():
        actor.unblock()
        got = [(actor.subjects[one.sid], one.seq, one.meta.kind) for one in actor.taken() if isinstance(one, Data)]
        for subject in ("/s/1", "/s/2", "/s/3"):
            assert [one for one in got if one[0] == subject] == [one for one in wanted[name] if one[0] == subject]
    for actor in list(stage.actors.values()):
        stage.sessions.close(actor.client)
    assert not stage.broker.interest.groups
    assert stage.broker.counters.subscriptions == 0
    assert set(stage.broker.interest.topics) == set(sequences)


def test_clients_with_the_same_subjects_share_a_group() -> None:
    """Whatever order they subscribed in."""
    stage = Stage()
    for name, order in (("ann", ["/s/1", "/s/2"]), ("bob", ["/s/2", "/s/1"])):
        stage.enter(name)
        for subject in order:
            stage.actors[name].say(Subscribe(id=1, subjects=[subject]))
    assert len(stage.broker.interest.groups) == 1
    stage.actors["bob"].say(Unsubscribe(id=2, subjects=["/s/1"]))
    assert len(stage.broker.interest.groups) == 2


def test_both_forms_get_the_same() -> None:
    """JSON and MessagePack clients of one subject."""
    stage = Stage()
    actors = [stage.enter("ann", form="json"), stage.enter("bob", form="msgpack")]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/s/1"]))
        actor.taken()
    stage.publish("/s/1", "é", {"x": "1"})
    assert [actor.messages() for actor in actors] == [[("/s/1", 1, "é")]] * 2


def test_limits_refuse_with_their_names() -> None:
    """Message size, subjects, fields, the server's own subjects."""
    stage = Stage(limits=Limits(message_bytes_max=100, subjects_max=3))

    def publish(principal: Principal, messages: list[Message], now: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        stage.broker.publish(principal, messages, now, outcomes.extend)
        return outcomes

    principal = stage.broker.grants.principal("", 0)
    assert publish(principal, [Message("/s/1", "x" * 101)], 0) == [("too_large", "over 100 bytes")]
    assert publish(principal, [Message("/s/1", "x", {"n": "é" * 60})], 0) == [("too_large", "over 100 bytes")]
    assert publish(principal, [Message("/s", "x")], 0)[0][0] == "invalid"
    assert publish(principal, [Message("/__sys__/x", "x")], 0)[0][0] == "denied"
    assert publish(principal, [Message(f"/s/{n}", "x") for n in (1, 2, 3)], 0) == [1, 1, 1]
    assert publish(principal, [Message("/s/4", "x")], 0)[0][0] == "failed"
    assert publish(principal, [Message("/s/3", "x")], 0) == [2]


def test_a_snapshot_gathers_a_bounded_number_of_fields() -> None:
    """A publisher that invents names is stopped; known names go on."""
    stage = Stage()
    for batch in range(4):
        assert stage.publish("/s/1", "x", {f"f{batch}-{n}": "1" for n in range(256)}) == batch + 1
    assert stage.publish("/s/1", "x", {"one more": "1"})[0] == "too_large"
    assert stage.publish("/s/1", "x", {"f0-0": "2"}) == 5


def test_a_burst_of_snapshots_waits_for_room() -> None:
    """Ten snapshots of 1000 bytes through a queue of 4000: told, and all there in the end, without a close."""
    stage = Stage(limits=Limits(outbox_bytes_max=4000))
    subjects = [f"/s/{number}" for number in range(10)]
    for subject in subjects:
        stage.publish(subject, "x" * 1000)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=subjects))
    first = ann.taken()
    waiting = [one.subject for one in first[1].results if one.error]
    assert {one.error for one in first[1].results} == {"", "not_ready"}
    ann.say(Unsubscribe(id=2, subjects=[waiting.pop()]))
    ann.blocked = True
    stage.publish("/s/0", "y" * 1000)
    stage.advance(200)
    assert ann.client.queue is not None
    assert ann.client.queue.size < 3000
    ann.unblock()
    stage.advance(1000)
    later = [one.subject for answer in ann.taken() for one in getattr(answer, "results", ()) if not one.error]
    assert sorted(later) == sorted(waiting)
    assert stage.broker.counters.waiting == 0
    assert len(ann.client.subscriptions) == 9


def test_recovery_beyond_the_outgoing_queue_comes_as_the_client_takes_it() -> None:
    """A burst that would close the client as slow is none: the rest waits in the cache."""
    stage = Stage(limits=Limits(outbox_bytes_max=10_000))
    for _ in range(10):
        stage.publish("/s/1", "x" * 1000)
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/s/1"], since={"/s/1": (stage.broker.engine.epoch, 1)}))
    result = ann.taken()[1].results[0]
    assert (result.recovery, result.messages) == ("recovered", 9)
    ann.say(Subscribe(id=2, subjects=["/s/1"], since={"/s/1": (stage.broker.engine.epoch, 8)}))
    result = ann.taken()[0].results[0]
    assert (result.recovery, result.messages) == ("recovered", 2)


def test_who_joins_or_leaves_does_not_have_the_group_written() -> None:
    """What is pending for a hundred is owed to them; one who comes costs nothing, one who goes its own copy."""
    stage = Stage()
    actors = [stage.enter(f"client {number}") for number in range(100)]
    for actor in actors:
        actor.say(Subscribe(id=1, subjects=["/s/1"]))
    stage.broker.publish(None, [Message("/s/1", "x", retained=False)], stage.now)
    before = stage.broker.counters.messages_out
    newcomer = stage.enter("newcomer")
    stage.sessions.receive(newcomer.client, encode(Subscribe(id=1, subjects=["/s/1"]), "json"), stage.now)
    assert stage.broker.counters.messages_out == before
    stage.sessions.receive(actors[0].client, encode(Unsubscribe(id=2, subjects=["/s/1"]), "json"), stage.now)
    assert stage.broker.counters.messages_out == before + 1
    stage.end()
    assert stage.broker.counters.messages_out == before + 100
    assert [len(actor.messages()) for actor in (*actors, newcomer)] == [1] * 100 + [0]


def test_of_removed_subjects_no_more_is_kept_than_of_idle_ones() -> None:
    """Of what never had a number nothing; of others that they were removed, and messages while they are cached."""
    stage = Stage(limits=Limits(cache_ms=1000))
    for number in range(100):
        stage.publish(f"/light/{number}", "x" * 100, {"watts": "7"}, qos=STANDARD)
        stage.remove(f"/light/{number}", qos=STANDARD)
        stage.publish(f"/kept/{number}", "x" * 100, {"watts": "7"})
        stage.remove(f"/kept/{number}")
    topics = stage.broker.interest.topics
    assert [name for name in topics if name.startswith("/light/")] == []
    assert [one for one in stage.broker.interest.tree.find("/light/*") if one is not None] == []
    stage.advance(2000)
    assert stage.broker.history.bytes == 0
    for number in range(100):
        topic = topics[f"/kept/{number}"]
        assert (topic.seq, topic.ring, stage.broker.snapshot(topic)) == (2, None, None)
        assert topic.snapshot is not None
        assert (topic.snapshot.newest.size, topic.snapshot.fields) == (0, None)


def test_a_subscriber_keeps_a_subject_without_numbers_that_is_removed() -> None:
    stage = Stage()
    ann = stage.enter("ann")
    ann.say(Subscribe(id=1, subjects=["/light/*"]))
    for content in ("on", "off"):
        stage.publish("/light/1", content, qos=STANDARD)
        stage.remove("/light/1", qos=STANDARD)
    told = [(one.content, one.meta.removed) for one in ann.taken() if isinstance(one, Data)]
    assert told == [("on", False), ("", True), ("off", False), ("", True)]


def test_what_is_removed_is_begun_anew_whether_its_state_has_expired_or_not() -> None:
    stage = Stage(limits=Limits(snapshot_ms=1000))
    stage.publish("/a/b", "1", {"a": "1"})
    stage.remove("/a/b")
    topic = stage.broker.interest.topics["/a/b"]
    assert stage.broker.state(topic) is topic.snapshot is not None
    stage.advance(2000)
    assert (stage.broker.state(topic), topic.snapshot) == (None, None)
    stage.remove("/a/b")
    stage.publish("/a/b", "2", {"b": "2"})
    snapshot = stage.broker.snapshot(topic)
    assert snapshot is not None
    assert (snapshot.newest.content, snapshot.fields, topic.seq) == ("2", {"b": "2"}, 4)


def test_a_version_outlives_the_removal_that_brought_it() -> None:
    stage = Stage()
    stage.publish("/a/b", "1", as_of={"version": 3})
    assert stage.remove("/a/b", as_of={"version": 4}) == 2
    for outcome in (stage.publish("/a/b", "late", as_of={"version": 3}), stage.remove("/a/b", as_of={"version": 3})):
        assert outcome == ("outdated", "version 3: the subject has version 4 already")
    assert stage.publish("/a/b", "2", as_of={"version": 4}) == 3
