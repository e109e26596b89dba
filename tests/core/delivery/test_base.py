"""The zero of message times moves on, and whoever gets a message has been told of its zero before (protocol.md 4.9)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.messages import Base, Connected, Data, Subscribe, Unsubscribe
from tests.support.core.stage import START, Actor, Stage

SUBJECTS = ["/s/1", "/s/2"]
STEP = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("subscribe"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("conflate"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("unsubscribe"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("wait"), st.sampled_from([50, 20_000, 59_999, 60_001])),
)


def times(actor: Actor) -> list[int]:
    """When the messages that a client got were published, as the client works it out."""
    base, found = 0, []
    for value in actor.got:
        if isinstance(value, Base | Connected):
            base = value.base
        elif isinstance(value, Data):
            assert base
            assert value.t <= 60_000
            found.append((actor.subjects[value.sid], value.seq, base + value.t))
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(STEP, st.sampled_from(["ann", "bob"])), max_size=30))
def test_every_client_works_out_the_true_time(steps: list) -> None:
    """Whatever is subscribed, stored, conflated or idle while the base moves."""
    stage = Stage()
    published: dict[tuple[str, int], int] = {}
    sequences = dict.fromkeys(SUBJECTS, 0)
    for (what, more), who in steps:
        actor = stage.actors.get(who) or stage.enter(who)
        if what == "publish":
            sequences[more] += 1
            published[more, sequences[more]] = stage.now
            stage.publish(more, "x")
        elif what == "wait":
            stage.advance(more)
        elif what == "unsubscribe":
            actor.say(Unsubscribe(id=1, subjects=[more]))
            stage.end()
        else:
            actor.say(Subscribe(id=1, subjects=[more], history=5, conflation=500 if what == "conflate" else 0))
            stage.end()
    stage.advance(1000)
    for actor in stage.actors.values():
        for subject, seq, time in times(actor):
            assert time == published[subject, seq]


def test_it_is_told_once_and_only_with_a_message() -> None:
    """A quiet client is left alone; a busy one is told once a minute."""
    stage = Stage()
    ann, bob = stage.enter("ann"), stage.enter("bob")
    ann.say(Subscribe(id=1, subjects=["/s/1"]))
    bob.say(Subscribe(id=1, subjects=["/s/2"]))
    stage.end()
    for _ in range(25):
        stage.advance(10_000)
        stage.publish("/s/1", "x")
    bases = [value.base for value in ann.got if isinstance(value, Base)]
    assert bases == [START, START + 70_000, START + 140_000, START + 210_000]
    assert [value.base for value in bob.got if isinstance(value, Base)] == [START]
