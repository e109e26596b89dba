"""The publisher port: batches, their results, what ends a publisher, and one that does not read."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import Any

import jwt
import pytest

from tests.support.edge.wire import Ended, Socket, WireClient, WirePublisher, packed, resident_bytes, undisturbed
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, until

HELLO = packed("hello", {"version": 1})
MALFORMED: dict[str, tuple[bytes, str]] = {
    "no MessagePack": (b"\x00\x00\x00\x01\xc1", "not a MessagePack array"),
    "a map": (b"\x00\x00\x00\x01\x80", "not a MessagePack array"),
    "empty frame": (b"\x00\x00\x00\x00", "not a MessagePack array"),
    "bytes left over": (b"\x00\x00\x00\x02\x90\x90", "not a MessagePack array"),
    "empty array": (b"\x00\x00\x00\x01\x90", "not a frame of this port"),
    "deep": (len(b"\x91" * 9000).to_bytes(4) + b"\x91" * 9000, "not a MessagePack array"),
    "over 4 MiB": ((4 << 20 | 1).to_bytes(4), "a frame of 4194305 bytes; at most 4194304 are taken"),
    "a letter": (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
    "unknown verb": (packed("batsch", 3, []), "not a frame of this port: ['batsch']"),
    "second hello": (HELLO, "not a frame of this port: ['hello']"),
    "batch without number": (packed("batch", "3", []), "not a frame of this port"),
    "batch without rows": (packed("batch", 3), "not a frame of this port"),
    "numbers that do not rise": (packed("batch", 2, []), "batch 2 after batch 2: numbers rise"),
    "numbers that fall": (packed("batch", -1, []), "batch -1 after batch 2: numbers rise"),
    "over 10,000 messages": (packed("batch", 3, [["/p/x", ""]] * 10_001), "over 10000 messages in a batch"),
}


@pytest.mark.parametrize("extra", [b"", b"\x00" * 100_000], ids=["alone", "with more behind it"])
@pytest.mark.parametrize(("data", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_what_comes_before_a_malformed_frame_is_applied(
    shared: Sidecar, data: bytes, reason: str, extra: bytes
) -> None:
    with undisturbed(shared), WirePublisher(shared) as publisher, WireClient(shared) as client:
        [result] = client.subscribe("/p/before")
        if result.get("messages"):
            client.message()
        rows = [["/p/before", "one"]], [["/p/before", "two"]]
        publisher.send(packed("batch", 1, rows[0]) + packed("batch", 2, rows[1]) + data + extra)
        first = result["seq"] + 1
        assert [publisher.next()[3] for _ in range(2)] == [[first], [first + 1]]
        with pytest.raises(Ended) as end:
            publisher.next()
        assert end.value.code == 4500
        assert end.value.reason.startswith(f"bad_message: {reason}")
        assert publisher.rest() == b""
        assert client.texts(2) == ["one", "two"]
        assert client.quiet()


FIRST: dict[str, tuple[bytes, int, str]] = {
    "batch": (packed("batch", 1, [["/p/x", "no"]]), 4500, "bad_message: hello comes first"),
    "ping": (packed("ping", 1), 4500, "bad_message: hello comes first"),
    "version 2": (packed("hello", {"version": 2}), 4504, "bad_version: this server speaks version 1"),
    "version as text": (packed("hello", {"version": "1"}), 4504, "bad_version: this server speaks version 1"),
    "token as number": (packed("hello", {"token": 5}), 4501, "bad_token: the token is a text"),
    "hello without map": (packed("hello"), 4500, "bad_message: not a frame of this port: ['hello']"),
}


@pytest.mark.parametrize(("data", "code", "reason"), FIRST.values(), ids=FIRST)
def test_the_first_frame(shared: Sidecar, data: bytes, code: int, reason: str) -> None:
    with WirePublisher(shared, hello=False) as publisher, WireClient(shared) as client:
        client.subscribe("/p/x")
        publisher.send(data)
        got = publisher.closed()
        assert (got[0], got[1][: len(reason)]) == (code, reason)
        assert client.quiet()


def test_the_welcome_tells_the_bounds(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        assert publisher.welcome.keys() == {
            "version", "server", "epoch", "user", "window", "frame_bytes", "batch_messages"}  # fmt: skip
        assert (publisher.welcome["window"], publisher.welcome["frame_bytes"]) == (16, 4 << 20)
        publisher.packet("ping", 7)
        assert publisher.next() == ["pong", 7]


ROWS: dict[str, tuple[Any, str, str]] = {
    "a text": ("/p/rows", "invalid", "a message is [subject, content, fields, meta]"),
    "a map": ({"subject": "/p/rows"}, "invalid", "a message is [subject, content, fields, meta]"),
    "one part": (["/p/rows"], "invalid", "a message is [subject, content, fields, meta]"),
    "five parts": (["/p/rows", "", None, None, None], "invalid", "a message is [subject, content, fields, meta]"),
    "subject is a number": ([5, ""], "invalid", "a message is [subject, content, fields, meta]"),
    "subject is binary": ([b"/p/rows", ""], "invalid", "a message is [subject, content, fields, meta]"),
    "content is a number": (["/p/rows", 5], "invalid", "content and field values are text or binary"),
    "content is nil": (["/p/rows", None], "invalid", "content and field values are text or binary"),
    "fields is a list": (["/p/rows", "", ["a"]], "invalid", "fields is a map of names to values"),
    "a field is a number": (["/p/rows", "", {"a": 1}], "invalid", "content and field values are text or binary"),
    "a name is a number": (["/p/rows", "", {1: "a"}], "invalid", "a field's name is a text"),
    "300 fields": (["/p/rows", "", {str(n): "" for n in range(300)}], "too_large", "more than 256 fields"),
    "meta is a list": (["/p/rows", "", None, ["a"]], "invalid", "meta is a map"),
    "quality": (["/p/rows", "", None, {"qos": "best"}], "invalid", 'qos is "guaranteed" or "standard"'),
    "id is a text": (["/p/rows", "", None, {"id": "7"}], "invalid", "id is a whole number from 1 on that rises"),
    "closure is a number": (["/p/rows", "", None, {"closure": 5}], "invalid", "closure is a text"),
    "as_of is a list": (["/p/rows", "", None, {"as_of": []}], "invalid", "as_of is a text, a whole number or a map"),
    "as_of of another key": (
        ["/p/rows", "", None, {"as_of": {"when": 1}}],
        "invalid",
        "as_of is a map of time, batch, job, version",
    ),
    "long as_of": (["/p/rows", "", None, {"as_of": "x" * 257}], "invalid", "as_of has at most 256 characters"),
    "as_of in ns": (
        ["/p/rows", "", None, {"as_of": 1795883791704842422}],
        "invalid",
        "as_of: 1795883791704842422 is no number that every client reads, at most 2^53 - 1: give ms instead of ns",
    ),
    "no slash": (["p/rows", ""], "invalid", "subject 'p/rows': no leading slash"),
    "one segment": (["/p", ""], "invalid", "subject '/p': only one segment"),
    "the server's": (["/__sys__/stats", ""], "denied", "subjects below /__sys__ belong to the server"),
    "too large": (["/p/rows", "x" * ((1 << 20) + 1)], "too_large", "over 1048576 bytes"),
}


@pytest.mark.parametrize(("row", "code", "reason"), ROWS.values(), ids=ROWS)
def test_a_wrong_row_is_told_in_its_place(shared: Sidecar, row: Any, code: str, reason: str) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        [before] = client.subscribe("/p/rows")
        if before.get("messages"):
            client.message()
        results = publisher.publish(
            ["/p/rows", "a"], row, ["/p/rows", "b"], ["/p/rows", "c", None, {"qos": "standard"}]
        )
        first = before["seq"] + 1
        assert [results[0], *results[2:]] == [first, first + 1, 0]
        assert results[1][0] == code
        assert results[1][1].startswith(reason)
        assert client.texts(3) == ["a", "b", "c"]
        assert client.quiet()


def test_all_rows_wrong_and_none(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        assert [result[0] for result in publisher.publish(*[5] * 10_000)] == ["invalid"] * 10_000
        assert publisher.publish() == []


def test_the_largest_batch(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        results = publisher.publish(*(["/p/largest", f"{n}"] for n in range(10_000)))
        assert results == list(range(results[0], results[0] + 10_000))


def test_frames_cut_anywhere(shared: Sidecar) -> None:
    with WirePublisher(shared, hello=False) as publisher:
        for byte in HELLO + packed("batch", 1, [["/p/cut", "x", {"é": "ü"}]]) + packed("ping", 2):
            publisher.send(bytes((byte,)))
        assert [publisher.next()[0] for _ in range(3)] == ["welcome", "ack", "pong"]


def test_who_does_not_read_its_acknowledgements_is_not_read_either(shared: Sidecar) -> None:
    """The sidecar's memory stays bounded, everybody else goes on, and when it reads, all of it is there."""
    row = ["/p/unread", "x" * 100]
    with undisturbed(shared), WirePublisher(shared, receive_bytes=4096) as publisher:
        before = resident_bytes(shared.pid)
        publisher.sock.setblocking(False)
        sent = 0
        batches = b"".join(packed("batch", n, [row, 5, 5, 5, 5, 5, 5, 5]) for n in range(1, 200_001))
        view = memoryview(batches)

        def stuck() -> bool:
            """Nothing is taken from us any more, and not for want of time."""
            nonlocal sent
            try:
                while sent < len(view):
                    sent += publisher.sock.send(view[sent : sent + (1 << 20)])
            except BlockingIOError:
                pass
            with WirePublisher(shared) as other:
                other.publish(["/p/other", "goes on"])
            taken = sent
            try:
                sent += publisher.sock.send(view[sent : sent + 1])
            except BlockingIOError:
                return taken == sent
            return False

        until(stuck, 20)
        assert sent < len(view), "it was read to the end"
        assert resident_bytes(shared.pid) - before < 24 << 20
        publisher.sock.setblocking(True)
        publisher.sock.settimeout(PATIENCE_SECONDS)
        whole = _whole_batches(view[:sent])
        for number in range(1, whole + 1):
            kind, n, _, results = publisher.next()
            assert (kind, n, len(results)) == ("ack", number, 8)
        publisher.send(bytes(view[sent : _end_of(view, whole + 1)]) + packed("ping", 1))
        assert [publisher.next()[0] for _ in range(2)] == ["ack", "pong"]


def _whole_batches(data: memoryview) -> int:
    at = count = 0
    while at + 4 <= len(data) and at + 4 + int.from_bytes(data[at : at + 4]) <= len(data):
        at += 4 + int.from_bytes(data[at : at + 4])
        count += 1
    return count


def _end_of(data: memoryview, batches: int) -> int:
    at = 0
    for _ in range(batches):
        at += 4 + int.from_bytes(data[at : at + 4])
    return at


def test_a_port_for_clients_and_publishers() -> None:
    with Sidecar(listen="clients+publishers://127.0.0.1:0", handshake_seconds=3) as sidecar:
        assert sidecar.ready["clients"] == sidecar.ready["publishers"]
        with undisturbed(sidecar), WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
            client.subscribe("/p/both")
            assert publisher.publish(["/p/both", "x"]) == [1]
            assert client.texts(1) == ["x"]
            with Socket(sidecar.client_url) as silent:
                assert silent.rest() == b""


# Rights


@pytest.fixture(scope="module")
def jwt_sidecar() -> Any:
    """A sidecar that believes the patterns in its tokens."""
    with Sidecar(mode="jwt", token_secret=SECRET) as running:
        yield running


def test_the_right_is_asked_for_each_message(jwt_sidecar: Sidecar) -> None:
    token = mint_jwt("desk", subscribe=["/p/secret"], publish=["/p/*", "/own/{username}/**"], both=["/all/x"])
    with WirePublisher(jwt_sidecar, token) as publisher:
        assert publisher.welcome["user"] == "desk"
        subjects = ["/p/a", "/p/a/b", "/q/a", "/own/desk/x/y", "/own/other/x", "/all/x", "/__sys__/stats"]
        results = publisher.publish(*([subject, ""] for subject in subjects))
        refused = ["denied", "no permission in the token covers it"]
        assert results[:6] == [1, refused, refused, 1, refused, 1]
        assert results[6] == ["denied", "subjects below /__sys__ belong to the server"]


def test_without_a_token_nothing_may_be_published(jwt_sidecar: Sidecar) -> None:
    with WirePublisher(jwt_sidecar) as publisher:
        assert publisher.publish(["/p/a", ""]) == [["denied", "a token is needed"]]


BAD_TOKENS = {
    "another secret": (mint_jwt("desk", secret="another secret of thirty-two bytes"), 4501, "bad_token"),
    "no token": ("hello", 4501, "bad_token"),
    "ended": (mint_jwt("desk", hours=-1), 4007, "token_expired"),
    "without a signature": (mint_jwt("desk").rpartition(".")[0] + ".", 4501, "bad_token"),
}


@pytest.mark.parametrize(("token", "code", "name"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_a_token_that_is_refused(jwt_sidecar: Sidecar, token: str, code: int, name: str) -> None:
    with WirePublisher(jwt_sidecar, hello=False) as publisher:
        publisher.packet("hello", {"token": token})
        got = publisher.closed()
        assert (got[0], got[1].partition(":")[0]) == (code, name)
    with WireClient(jwt_sidecar, path=f"/ws?token={token}") as client:
        assert client.closed() == (code, name)
    with WireClient(jwt_sidecar) as client:
        client.say("connect", token=token)
        assert client.closed() == (code, name)


def test_a_token_that_ends_while_publishing(jwt_sidecar: Sidecar) -> None:
    lasts = count(2)

    def enter() -> list[WirePublisher] | None:
        """Two with a token that has not ended before anything is published: a busy machine needs a longer one."""
        token = mint_jwt("desk", publish=["/p/**"], hours=next(lasts) / 3600)
        try:
            both = [stack.enter_context(WirePublisher(jwt_sidecar, token)) for _ in range(2)]
            assert isinstance(both[0].publish(["/p/ends", ""])[0], int)
        except Ended:
            return None
        return both

    with ExitStack() as stack:
        publisher, idle = until(enter)  # type: ignore[misc]

        def ended() -> str | None:
            try:
                publisher.publish(["/p/ends", ""])
            except Ended as end:
                return f"{end.code} {end.reason}"
            return None

        assert until(ended) == "4007 token_expired: get a new token, then reconnect"
        assert idle.closed() == (4007, "token_expired: get a new token, then reconnect")


def test_permissions_of_another_shape_are_a_bad_token(jwt_sidecar: Sidecar) -> None:

    for permissions in (5, ["/p/**"], {"pub": 5}, "/p/**"):
        token = jwt.encode({"sub": "x", "exp": 1 << 40, "permissions": permissions}, SECRET, algorithm="HS256")
        with WirePublisher(jwt_sidecar, hello=False) as publisher:
            publisher.packet("hello", {"token": token})
            assert publisher.closed()[0] == 4501, permissions


def test_patterns_in_a_token_that_are_none_allow_nothing(jwt_sidecar: Sidecar) -> None:
    token = mint_jwt("desk", publish=["xp/**", "p/**", "/p//a", "/**/a", "", "/p/a*"])
    with WirePublisher(jwt_sidecar, token) as publisher:
        assert [result[0] for result in publisher.publish(["/p/a", ""], ["/p/a/a", ""])] == ["denied", "denied"]


def test_messages_are_what_was_published(shared: Sidecar) -> None:
    """Fields, the flag, and what is passed through, in both forms."""
    meta = {"retained": False, "reply_to": "/in/box", "closure": "c-1", "as_of": "2026-01-02"}
    with WirePublisher(shared) as publisher, WireClient(shared) as text, WireClient(shared, "msgpack") as binary:
        for client in (text, binary):
            client.subscribe("/p/meta")
        publisher.publish(["/p/meta", "x", {"raw": b"\x00", "t": "é"}, meta])
        assert text.message()[3:] == ["x", {"raw": {"b": "AA=="}, "t": "é"}, meta]
        assert binary.message()[3:] == ["x", {"raw": b"\x00", "t": "é"}, meta]
