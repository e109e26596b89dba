"""Commands that are frames of the protocol and yet wrong: refused with a code and a reason; the connection goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.edge.wire import BINARY, TEXT, WireClient, basic, resident_bytes, undisturbed
from tests.support.sidecar import Sidecar

BAD = "invalid"
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown op": ({"op": "subscribee"}, BAD, 'unknown op "subscribee"'),
    "very long op": ({"op": "x" * 5000}, BAD, 'unknown op "' + "x" * 40 + '"'),
    "an answer's op": ({"op": "subscribed", "results": []}, BAD, 'unknown op "subscribed"'),
    "no op": ({"op": None}, BAD, "- at `op`"),
    "op is a number": ({"op": 5}, BAD, "- at `op`"),
    "no subjects": ({"op": "subscribe"}, BAD, "Object missing required field `subjects`"),
    "subjects is a text": (
        {"op": "subscribe", "subjects": "/a/b"}, BAD, "Expected `array`, got `str` - at `subjects`"),
    "a subject is a number": (
        {"op": "subscribe", "subjects": [5]}, BAD, "Expected `str`, got `int` - at `subjects["),
    "history is a text": (
        {"op": "subscribe", "subjects": ["/a/b"], "history": "1"}, BAD, "Expected `int`, got `str` - at `history`"),
    "history is negative": (
        {"op": "subscribe", "subjects": ["/a/b"], "history": -1}, BAD, "history and conflation are not negative"),
    "conflation is half": (
        {"op": "subscribe", "subjects": ["/a/b"], "conflation": 0.5}, BAD,
        "Expected `int`, got `float` - at `conflation`"),
    "since is a number": (
        {"op": "subscribe", "subjects": ["/a/b"], "since": 5}, BAD, "Expected `object`, got `int` - at `since`"),
    "since has one part": (
        {"op": "subscribe", "subjects": ["/a/b"], "since": {"/a/b": [1]}}, BAD,
        "- at `since[...]`"),
    "slow is drop": (
        {"op": "subscribe", "subjects": ["/a/b"], "slow": "drop"}, BAD, 'slow is "close" or "conflate"'),
    "1001 subjects": (
        {"op": "subscribe", "subjects": ["/a/b"] * 1001}, "limit", "over 1000 subjects in one command"),
    "1001 subjects to leave": (
        {"op": "unsubscribe", "subjects": ["/a/b"] * 1001}, "limit", "over 1000 subjects in one command"),
    "huge closure": (
        {"op": "publish", "subject": "/a/b", "content": "x", "closure": "c" * 257}, "limit",
        "a closure has at most 256 characters"),
    "fields is a list": (
        {"op": "publish", "subject": "/a/b", "content": "x", "fields": []}, BAD,
        "Expected `object`, got `array` - at `fields`"),
    "no token": ({"op": "token"}, BAD, "Object missing required field `token`"),
    "token is null": ({"op": "connect", "token": None}, BAD, " - at `token`"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize(("command", "code", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_with_its_id(shared: Sidecar, form: str, command: dict[str, Any], code: str, reason: str) -> None:
    with WireClient(shared, form) as client:
        client.say("connect")
        client.answer("connected")
        number = client.say(**{"op": None} | command)
        answer = client.next()
        assert reason in answer.pop("reason")
        assert answer == {"op": "error", "id": number, "code": code}
        assert client.quiet()


PUBLISHED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no content": ({"content": None}, BAD, "content and field values are text or binary"),
    "content is a number": ({"content": 5}, BAD, "content and field values are text or binary"),
    "content is a list": ({"content": ["x"]}, BAD, "content and field values are text or binary"),
    "a field is a number": ({"fields": {"a": 1}}, BAD, "content and field values are text or binary"),
    "300 fields": ({"fields": {str(n): "x" for n in range(300)}}, "too_large", "more than 256 fields"),
    "field name of 1 KB": (
        {"fields": {"n" * 1024: "x"}}, BAD, "a field's name is a text of 1 to 256 characters"),
    "empty field name": ({"fields": {"": "x"}}, BAD, "a field's name is a text of 1 to 256 characters"),
    "quality": ({"qos": "best"}, BAD, 'qos is "guaranteed" or "standard"'),
    "long reply_to": ({"reply_to": "/" + "r" * 600}, BAD, "reply_to has at most 512 characters"),
    "too large": ({"content": "x" * (1 << 20), "fields": {"a": "b"}}, "too_large", "over 1048576 bytes"),
    "the server's subject": (
        {"subject": "/__sys__/stats"}, "denied", "subjects below /__sys__ belong to the server"),
    "subject without slash": ({"subject": "a/b"}, BAD, "subject 'a/b': no leading slash"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize(("keys", "status", "reason"), PUBLISHED.values(), ids=PUBLISHED)
def test_a_publication_is_refused_with_its_closure(
    shared: Sidecar, form: str, keys: dict[str, Any], status: str, reason: str
) -> None:
    with WireClient(shared, form) as client, WireClient(shared) as other:
        other.subscribe("/bad/values")
        answer = client.ask("publish", "published", **{"subject": "/bad/values", "content": "x", "closure": "c"} | keys)
        assert (answer["status"], answer["reason"], answer["closure"]) == (status, reason, "c")
        assert other.quiet()


def test_wrong_base64_is_refused(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        for wrong in ("x", "=", "eA", "eA==\n", "e-A="):
            keys = {"subject": "/bad/values", "content": {"b": wrong}, "closure": "c"}
            answer = client.ask("publish", "published", **keys)
            assert answer["reason"] == 'a binary value is {"b": base64}, padded', wrong
        for other in ({}, {"c": "eA=="}, {"b": 5}, {"b": "eA==", "c": ""}):
            answer = client.ask("publish", "published", subject="/bad/values", content=other, closure="c")
            assert answer["reason"] == "content and field values are text or binary"


def test_binary_values_travel_between_both_forms(shared: Sidecar) -> None:
    data = bytes(range(256))
    with WireClient(shared) as text, WireClient(shared, "msgpack") as binary:
        text.subscribe("/bad/binary")
        binary.subscribe("/bad/binary")
        binary.say("publish", subject="/bad/binary", content=data, fields={"raw": b"\xff", "text": "é"})
        in_json = {"b": basic("")} | {"b": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1"}
        assert text.message()[3]["b"].startswith(in_json["b"])
        assert binary.message()[3:] == [data, {"raw": b"\xff", "text": "é"}]
        text.say("publish", subject="/bad/binary", content={"b": "/w=="}, fields={"raw": {"b": ""}})
        assert text.message()[3:] == [{"b": "/w=="}, {"raw": {"b": ""}}]
        assert binary.message()[3:] == [b"\xff", {"raw": b""}]


@pytest.mark.parametrize("digits", [19, 20, 60])
def test_huge_integers_in_json(shared: Sidecar, digits: int) -> None:
    """Longer than any machine's integer: taken as what they are, or refused; nothing breaks."""
    huge = b"9" * digits
    with WireClient(shared) as client:
        client.frame(TEXT, b'{"op":"ping","id":' + huge + b"}")
        _, payload = client.next_frame()
        while b"pong" not in payload:
            _, payload = client.next_frame()
        assert b'"id":' + huge in payload
        for key in (b"history", b"conflation"):
            client.frame(TEXT, b'{"op":"subscribe","id":1,"subjects":["/bad/huge"],"' + key + b'":' + huge + b"}")
            [result] = client.answer("subscribed")["results"]
            assert result.get("conflation", 0) == (3_600_000 if key == b"conflation" else 0)
        since = b'{"/bad/huge":[' + huge + b"," + huge + b"]}"
        client.frame(TEXT, b'{"op":"subscribe","id":1,"subjects":["/bad/huge"],"since":' + since + b"}")
        assert client.answer("subscribed")["results"][0]["recovery"] == "resynchronised"
        client.frame(TEXT, b'{"op":"subscribee","id":' + huge + b"}")
        assert client.answer("error")["reason"] == 'unknown op "subscribee"'


def test_huge_integers_in_msgpack(shared: Sidecar) -> None:
    most = (1 << 64) - 1
    with WireClient(shared, "msgpack") as client:
        client.frame(BINARY, msgspec.msgpack.encode({"op": "ping", "id": most}))
        assert client.answer("pong")["id"] == most
        client.frame(BINARY, msgspec.msgpack.encode({"op": "ping", "id": -(1 << 63)}))
        assert client.answer("pong")["id"] == -(1 << 63)
        keys = {"history": most, "conflation": most, "since": {"/bad/huge": [most, most]}}
        [result] = client.subscribe("/bad/huge", **keys)
        assert (result["recovery"], result["conflation"]) == ("resynchronised", 3_600_000)
        client.frame(BINARY, b"\x82\xa2op\xa4ping\xa2id\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00")  # NaN
        assert client.answer("error")["reason"] == "Expected `int`, got `float` - at `id`"


def test_a_key_twice_is_taken_once_or_refused(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        client.frame(TEXT, b'{"op":"ping","id":1,"id":2}')
        assert client.answer("pong")["id"] in (1, 2)
        client.frame(TEXT, b'{"op":"subscribe","op":"ping","id":3,"subjects":["/bad/twice"]}')
        assert client.next()["op"] in ("error", "pong", "subscribed")
        assert client.quiet()


def test_a_message_of_the_right_size_in_fragments_with_a_ping_between(shared: Sidecar) -> None:
    """Not bad at all; it is what the limits must let pass."""
    with WireClient(shared) as client:
        client.subscribe("/bad/whole")
        command = msgspec.json.encode({"op": "publish", "subject": "/bad/whole", "content": "\\" * 1_000_000})
        client.frame(TEXT, command[:700_000], final=False)
        client.frame(9, b"between")
        client.frame(0, command[700_000:1_500_000], final=False)
        client.frame(0, command[1_500_000:])
        assert client.next_frame() == (10, b"between")
        assert client.message()[3] == "\\" * 1_000_000


def test_after_a_hundred_refused_commands_it_ends(shared: Sidecar) -> None:
    with undisturbed(shared), WireClient(shared) as client:
        for _ in range(100):
            client.say("nonsense")
        assert [client.answer("error")["code"] for _ in range(100)] == ["invalid"] * 100
        assert client.say("ping") == client.answer("pong")["id"]
        client.say("nonsense")
        assert client.closed() == (4505, "too_many_errors")


def test_what_is_only_denied_ends_nothing(shared: Sidecar) -> None:
    """However often it is asked for: it is a command like others, that the server could read."""
    with WireClient(shared) as client:
        for _ in range(150):
            client.say("presence", subject="/bad/not-kept")
        assert [client.answer("error")["code"] for _ in range(150)] == ["invalid"] * 150
        assert client.say("ping") == client.answer("pong")["id"]


HALVES = {
    "content": rb'{"op":"publish","id":7,"subject":"/bad/half","content":"cut \ud83c","closure":"c"}',
    "the other half": rb'{"op":"publish","id":7,"subject":"/bad/half","content":"\uDF89 cut","closure":"c"}',
    "in the wrong order": rb'{"op":"publish","id":7,"subject":"/bad/half","content":"\udf89\ud83c","closure":"c"}',
    "a field": rb'{"op":"publish","id":7,"subject":"/bad/half","content":"x","fields":{"v":"\ud83c"}}',
    "the name of a field": rb'{"op":"publish","id":7,"subject":"/bad/half","content":"x","fields":{"\ud83c":"v"}}',
    "a subject": rb'{"op":"subscribe","id":7,"subjects":["/bad/\ud83c","/bad/half"]}',
    "the first of all halves": rb'{"op":"subscribe","id":7,"subjects":["/a/\ud800"]}',
    "a position": rb'{"op":"subscribe","id":7,"subjects":["/bad/half"],"since":{"/bad/\ud83c":[1,1]}}',
    "a pattern": rb'{"op":"advertise","id":7,"patterns":["/bad/\ud83c"]}',
    "a token": rb'{"op":"token","token":"\ud83c","id":7}',
    "what nobody reads": rb'{"more":"\ud83c","op":"ping","id":7}',
    "beside an unknown op": rb'{"op":"subscribee","id":7,"more":"\ud83c"}',
}


@pytest.mark.parametrize("command", HALVES.values(), ids=HALVES)
def test_half_a_character_refuses_its_command(shared: Sidecar, command: bytes) -> None:
    """What JavaScript escapes of a text that was cut within an emoji is no text; the connection goes on."""
    with WireClient(shared) as client, WireClient(shared) as other:
        other.subscribe("/bad/half")
        client.frame(TEXT, command)
        answer = client.answer("error")
        assert (answer["id"], answer["code"]) == (7, "invalid")
        client.frame(TEXT, rb'{"op":"publish","subject":"/bad/half","content":"\\ud83c \ud83c\udf89"}')
        assert other.message()[3] == "\\ud83c 🎉"


@pytest.mark.parametrize("data", [b"\xed\xa0", b"\xff\xff"])
@pytest.mark.parametrize(
    "command",
    [
        {"op": "publish", "id": 7, "subject": "/bad/half", "content": "##", "closure": "c"},
        {"op": "token", "id": 7, "token": "##"},
    ],
    ids=["a content", "a token"],
)
def test_what_is_no_utf8_refuses_its_command(shared: Sidecar, command: dict[str, Any], data: bytes) -> None:
    """In MessagePack, where only the text itself cannot be read."""
    with WireClient(shared, "msgpack") as client:
        client.frame(BINARY, msgspec.msgpack.encode(command).replace(b"##", data))
        answer = client.answer("error")
        assert (answer["id"], answer["code"], answer["reason"]) == (7, "invalid", "a text that is not UTF-8")
        assert client.say("ping") == client.answer("pong")["id"]


@pytest.mark.slow
def test_a_million_subscriptions(shared: Sidecar) -> None:
    """What passes the limit is refused, each with the reason, and costs nothing."""
    with undisturbed(shared), WireClient(shared) as client:
        before = resident_bytes(shared.pid)
        good = 0
        for command in range(1000):
            number = client.say("subscribe", subjects=[f"/million/{command}/{n}" for n in range(1000)])
            results = client.answer("subscribed", number)["results"]
            good += sum("sid" in result for result in results)
            if command >= 10:
                assert {result["error"] for result in results} == {"limit"}
                assert results[0]["reason"] == "over 10000 subscriptions on one connection"
        assert good == 10_000
        assert resident_bytes(shared.pid) - before < 64 << 20
        unsubscribed = client.ask("unsubscribe", "unsubscribed", subjects=[f"/million/0/{n}" for n in range(1000)])
        assert len(unsubscribed["subjects"]) == 1000
        assert "sid" in client.subscribe("/million/again")[0]


def test_subscribing_ever_again_to_what_was_left_costs_nothing(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        before = 0
        for turn in range(60):
            subjects = [f"/turns/{turn}/{n}" for n in range(1000)]
            client.ask("subscribe", "subscribed", subjects=subjects)
            client.ask("unsubscribe", "unsubscribed", subjects=subjects)
            if turn == 10:
                before = resident_bytes(shared.pid)
        assert resident_bytes(shared.pid) - before < 8 << 20


def test_subjects_over_the_limit_of_the_server() -> None:
    with Sidecar(mode="none", subjects_max=50) as sidecar, WireClient(sidecar) as client:
        results = client.subscribe(*(f"/many/{n}" for n in range(100)))
        good = [result["subject"] for result in results if "sid" in result]
        assert len(good) == 49, "one is the server's own, of its figures"
        assert results[-1] == {
            "subject": "/many/99", "error": "limit", "reason": "the server already holds 50 subjects",
        }  # fmt: skip
        answer = client.ask("publish", "published", subject="/many/new", content="x", closure="c")
        assert (answer["status"], answer["reason"]) == ("failed", "the server already holds 50 subjects")
        client.ask("unsubscribe", "unsubscribed", subjects=good[:10])
        assert "sid" in client.subscribe("/many/new")[0]
