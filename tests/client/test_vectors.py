"""The Python client against the test vectors: what it sends, and what it makes of what it gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fastpath.client.message import Message, Status
from fastpath.client.publisher.window import Window
from fastpath.client.subscriber.events import (
    Answered,
    Arrived,
    Event,
    InterestChange,
    NamedServers,
    RequestArrived,
    RequestOver,
)
from fastpath.client.subscriber.state import ClientState
from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import Unpacker
from tests.vectors import build, cases
from tests.vectors.reading import Vector, changed, each_form, vectors

BASE = 1700000000000
SUBJECT = "/stocks/us/IBM"
VALUES = {(section, name): value for _, _, listed in cases.FILES for name, section, value in listed}


def value_of(vector: Vector) -> Any:
    """The plain value that a vector stands for."""
    return VALUES[vector.section, vector.name]


def state_with(form: Form, sid: int) -> ClientState:
    """A client that gets messages of one subject under an id."""
    state = ClientState(form)
    state.open("")
    connected = {"op": "connected", "id": 1, "server": "s", "epoch": BASE, "user": "", "time": BASE, "base": BASE,
                 "ping_ms": 25000}  # fmt: skip
    state.receive(frame(connected, form))
    state.offer([SUBJECT])
    state.following.subscribe("owner", [SUBJECT], conflation=100)
    result = {"subject": SUBJECT, "sid": sid, "epoch": BASE, "seq": 0, "messages": 1, "conflation": 100}
    state.receive(frame({"op": "subscribed", "id": 2, "results": [result]}, form))
    return state


def frame(value: Any, form: Form) -> bytes:
    """Bytes made without the codec."""
    made = build.vector("server", "", "", value)
    return bytes.fromhex(made["msgpack"]) if form == "msgpack" else made["json"].encode()


def command(state: ClientState, value: dict[str, Any]) -> None:
    """Make the client send what the value says."""
    match value:
        case {"op": "connect"}:
            state.open(value.get("token", ""))
        case {"op": "subscribe", "history": _, "since": _}:
            # Who knows a position asks for no history, but the codec can say both.
            fields = {name: given for name, given in value.items() if name not in ("op", "id")}
            state.command(lambda number: wire.Subscribe(id=number, **fields))
        case {"op": "subscribe"}:
            state.following.subscribe("owner", value["subjects"], value.get("history", 0), value.get("conflation", 0),
                            value.get("since"), value.get("slow", "close"))  # fmt: skip
        case {"op": "unsubscribe"}:
            state.following.subscribe("owner", value["subjects"])
            state.take_out()
            state.following.unsubscribe(value["subjects"])
        case {"op": "publish"}:
            state.publish(value["subject"], value["content"], value.get("fields"), value.get("closure", ""),
                          value.get("retained", True), value.get("qos", "guaranteed"),
                          value.get("reply_to", ""), value.get("publication", 0),
                          value.get("replace", False), value.get("removed", False),
                          value.get("traceparent", ""))  # fmt: skip
        case {"op": "token"}:
            state.renew(value["token"])
        case {"op": "ping"}:
            state.ping()
        case {"op": "presence"}:
            state.presence(value.get("subject", ""))
        case {"op": "advertise"}:
            state.advertise(value["patterns"])
        case {"op": "respond"}:
            state.respond(value["patterns"])
        case {"op": "request"}:
            state.request(value["subject"], value["content"], value.get("fields", {}), value.get("timeout", 5000),
                          value.get("replies", 1))  # fmt: skip
        case {"op": "reply"}:
            state.reply(wire.GiveReply(**{name: given for name, given in value.items() if name != "op"}))


@pytest.mark.parametrize(("vector", "form"), each_form("client"), ids=str)
def test_the_client_sends_these_bytes(vector: Vector, form: Form) -> None:
    value = value_of(vector)
    if "id" not in value:
        # The client numbers every command of its own: with the number it must be these bytes too.
        value = {"op": value["op"], "id": 7, **value}
    state = ClientState(form, client=value.get("client", ""), publisher=value.get("publisher", ""))
    if value["op"] != "connect":
        state.open("")
        state.take_out()
    state._id = value["id"] - (2 if value["op"] == "unsubscribe" else 1)
    command(state, value)
    assert state.take_out() == [frame(value, form)]


def plain(answer: wire.AnyAnswer) -> Any:
    """An answer as a plain value, with bytes as they are."""
    return msgspec.to_builtins(answer, builtin_types=(bytes,))


def read(data: bytes, form: Form, sid: int) -> list[Event]:
    """What a client makes of one frame."""
    return state_with(form, sid).receive(data)


MESSAGES = [pair for pair in each_form("server") if isinstance(value_of(pair[0]), list)]
ANSWERS = [pair for pair in each_form("server") if isinstance(value_of(pair[0]), dict)]


@pytest.mark.parametrize(("vector", "form"), MESSAGES, ids=str)
def test_the_client_reads_these_messages(vector: Vector, form: Form) -> None:
    sid, seq, time, content, fields, meta = [*value_of(vector), None, None][:6]
    meta = meta or {}
    expected = Message(
        subject=SUBJECT, content=content, fields=fields or {}, epoch=BASE, seq=seq, time=BASE + time,
        kind=meta.get("kind", "update"), retained=meta.get("retained", True), reply_to=meta.get("reply_to", ""),
        closure=meta.get("closure", ""), as_of=meta.get("as_of"),
        removed=meta.get("removed", False), traceparent=meta.get("traceparent", ""))  # fmt: skip
    assert read(vector.forms[form], form, sid) == [Arrived("owner", expected)]
    assert expected.qos == ("guaranteed" if seq else "standard")


@pytest.mark.parametrize(("vector", "form"), MESSAGES, ids=str)
def test_a_changed_byte_is_another_message_or_none(vector: Vector, form: Form) -> None:
    sid = value_of(vector)[0]
    expected = read(vector.forms[form], form, sid)
    for other in changed(vector.forms[form]):
        try:
            assert read(other, form, sid) != expected, other
        except BadFrame:
            continue


@pytest.mark.parametrize(("vector", "form"), ANSWERS, ids=str)
def test_the_client_reads_these_answers(vector: Vector, form: Form) -> None:
    value = value_of(vector)
    for event in read(vector.forms[form], form, 17):
        match event:
            case Answered(number, answer):
                assert number == value["id"]
                assert plain(answer) == value
            case InterestChange():
                assert event == InterestChange([SUBJECT], True)  # of what nobody wanted nobody ceases to want
            case RequestArrived(asked):
                assert plain(asked) == value
            case RequestOver(to):
                assert to == value["to"]
            case NamedServers(servers):
                assert [list(server) for server in servers] == value["servers"]
            case Status():
                told = ("not_advertised", "denied", "not_ready", "recovered", "resynchronised", "subscribed", "gap")
                assert event.name in (value["op"], *told)


@pytest.mark.parametrize("vector", vectors("publisher server"), ids=str)
def test_the_publisher_reads_these_packets(vector: Vector) -> None:
    body = vector.forms["msgpack"]
    assert Unpacker(1 << 20).feed(len(body).to_bytes(4, "big") + body) == [value_of(vector)]


def test_the_publisher_sends_this_batch() -> None:
    vector = next(vector for vector in vectors("publisher") if vector.name == "batch numbered")
    _, number, rows, first = value_of(vector)
    window = Window(2, first - 1)
    for count, some in ((1, rows[:1]), (len(rows), rows)):
        window.submit(build.packed(some), count)
        frame = window.take()
    body = vector.forms["msgpack"]
    assert number == 2
    assert frame == len(body).to_bytes(4, "big") + body
