"""What a client's command publishes, and what is known of it before anybody has looked (protocol.md 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.broker.admission import Done
from fastpath.core.broker.observers import PublicationListener, Source
from fastpath.core.protocol.codec import JSON
from fastpath.core.protocol.errors import InvalidMessage
from fastpath.core.protocol.messages import GUARANTEED, STANDARD, Data, Message, Publish, Subscribe
from fastpath.core.sessions.publications import read_publication
from tests.support.core.stage import Stage

TRACE = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"

COMMANDS = st.builds(
    Publish,
    subject=st.just("/a/b"),
    content=st.sampled_from(["", "text", "Zürich", "€" * 200, {"b": "AAEC"}]),
    fields=st.sampled_from([{}, {"bid": "1"}, {"bid": "ü"}]),
    retained=st.booleans(),
    qos=st.sampled_from([GUARANTEED, GUARANTEED, STANDARD]),
    reply_to=st.sampled_from(["", "", "/re/ply"]),
    closure=st.sampled_from(["", "", "c"]),
    replace=st.booleans(),
    removed=st.booleans(),
    traceparent=st.sampled_from(["", "", TRACE]),
)


@given(COMMANDS)
def test_what_is_known_of_a_publication_is_what_weighing_it_finds(command: Publish) -> None:
    try:
        message = read_publication(command, JSON)
    except InvalidMessage:
        return
    size, plain = message.size, message.plain
    weighed = message.weigh()
    if plain or size:
        assert (size, plain) == (weighed, message.plain)
    assert message.size == len("".join([str(command.content), *command.fields, *command.fields.values()]).encode()) or (
        type(command.content) is dict
    )


class Tracing(PublicationListener):
    """Lets everything belong to a trace."""

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        for message in messages:
            message.traceparent = TRACE
        return done


def test_a_trace_that_comes_to_a_publication_reaches_its_readers() -> None:
    """Also to the usual one, of which all was known when it was read."""
    stage = Stage()
    ann, bob = stage.enter("ann"), stage.enter("bob")
    ann.say(Subscribe(id=1, subjects=["/a/b"]))
    ann.taken()
    for traced in (False, True):
        stage.broker.follow(Tracing(), traced)
        bob.say(Publish(subject="/a/b", content="usual"))
    told = [got.meta for got in ann.taken() if isinstance(got, Data)]
    assert [one.traceparent for one in told] == ["", TRACE]
    assert msgspec.to_builtins(told[0]) == {}
