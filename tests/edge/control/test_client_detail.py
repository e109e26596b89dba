"""The control verbs about one client or subject: ``client``, ``subject``, ``history``, ``ping``, ``disconnect``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from tests.support.edge.sessions import client_of
from tests.support.edge.wire import PING, PONG, TEXT, WireClient, WirePublisher, masked
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import until

FILLER = "x" * 4000


@pytest.fixture(scope="module")
def ward() -> Iterator[Sidecar]:
    """Rules, a rate of commands, and queues that hold much."""
    rules = [rule(1, "everyone", "/a/**"), rule(2, "group:3", "/b/**"), rule(3, "user:ann", "/b/no", allow=False)]
    settings = {"outbox_bytes_max": 32 << 20, "commands_per_second_max": 1000}
    with Sidecar(mode="rules", token_secret=SECRET, **settings) as sidecar:
        load_rights(sidecar.control, *rules)
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def control(ward: Sidecar) -> Iterator[Control]:
    """A connection of Django's, once nobody of the test before is left."""
    with Control(ward.control) as control:
        until(lambda: control.clients()["total"] == 0)
        yield control


def only(control: Control) -> str:
    """The name of the one connection."""
    [row] = control.clients()["clients"]
    return str(row["connection"])


def test_who_a_client_is_and_what_it_may(ward: Sidecar, control: Control) -> None:
    """Its subscriptions with the rules behind them, what waits and why; of its token the id and the end."""
    with WireClient(ward, "msgpack") as client:
        client.ask("connect", "connected", token=mint("ann", groups=["3", "4"], jti="t-1"), publisher="desk")
        client.subscribe("/a/one", "/b/*", "/b/no", "/c/one")
        client.subscribe("/a/slow", slow="conflate")
        client.subscribe("/a/grid", conflation=500)
        control.publish([["/b/new", "1"], ["/a/one", "2", {"bid": "3"}], ["/a/one", b"\xff"]])
        client.texts(3)
        client.say("nonsense")
        client.answer("error")
        found = control.client(only(control))
    who = [found[key] for key in ("user", "uid", "groups", "superuser", "errors", "held", "held_until")]
    assert who == ["ann", "ann", ["3", "4"], False, 1, [], None]
    assert found["token"]["id"] == "jti:t-1"
    assert found["token"]["expires"] > time.time() * 1000
    assert found["publisher"].endswith("desk")
    assert found["encoding"] == "msgpack"
    by_name = {one["subject"]: one for one in found["subscriptions"]}
    assert list(by_name) == ["/a/grid", "/a/one", "/a/slow", "/b/new"]
    epoch = by_name["/a/one"].pop("epoch")
    assert by_name["/a/one"] == {
        "subject": "/a/one",
        "pattern": "",
        "state": "live",
        "seq": 2,
        "newest": 2,
        "behind": 0,
        "conflation": 0,
        "slow": "close",
        "right": "rule 1 allows /a/** to everyone",
        "rule": 1,
    }
    assert (by_name["/b/new"]["pattern"], by_name["/b/new"]["rule"]) == ("/b/*", 2)
    assert (by_name["/a/slow"]["slow"], by_name["/a/grid"]["conflation"]) == ("conflate", 500)
    assert found["patterns_list"] == [
        {"pattern": "/b/*", "found": 1, "conflation": 0, "slow": "close", "searching": False}
    ]
    assert found["waiting_total"] == 2
    assert found["waiting"] == [
        {"subject": "/b/no", "pattern": "", "error": "denied", "reason": "rule 3 denies /b/no to user:ann"},
        {"subject": "/c/one", "pattern": "", "error": "denied", "reason": "no rule allows it"},
    ]
    newest = [(one["subject"], one["epoch"], one["seq"], one["content"], one["fields"]) for one in found["messages"]]
    assert sorted(newest, key=str) == sorted(
        [
            ("/a/one", epoch, 2, {"b": "/w=="}, {}),
            ("/a/one", epoch, 1, "2", {"bid": "3"}),
            ("/b/new", epoch, 1, "1", {}),
        ],
        key=str,
    )
    assert found["network"]["bytes_received"] > 100
    assert found["network"]["rtt_ms"] < 1000


def test_its_newest_messages_are_those_since_it_came_and_few(ward: Sidecar, control: Control) -> None:
    control.publish([["/a/before", "old"]])
    last = control.history("/a/before")["messages"][0]["time"]
    until(lambda: time.time() * 1000 > last + 200)  # `since` is within 100 ms
    with WireClient(ward) as client:
        client.subscribe("/a/before", "/a/x", "/a/y")
        assert client.message()[3] == "old"
        assert control.client(only(control))["messages"] == []
        for number in range(15):
            control.publish([["/a/x", f"x{number}"], ["/a/y", f"y{number}"]])
            client.texts(2)
        found = control.client(only(control))["messages"]
        times = [one["time"] for subject in ("/a/x", "/a/y") for one in control.history(subject)["messages"]]
    assert [one["time"] for one in found] == sorted(times, reverse=True)[:20]
    assert {(one["subject"], one["content"]) for one in found} >= {("/a/x", "x14"), ("/a/y", "y14")}


def test_subscriptions_come_in_pages(ward: Sidecar, control: Control) -> None:
    with WireClient(ward) as client:
        client.subscribe(*(f"/a/{number:03}" for number in range(250)))
        name = only(control)
        first = control.client(name)
        second = control.client(name, after=first["subscriptions"][-1]["subject"])
    assert (first["more"], second["more"], first["subscriptions_total"]) == (True, False, 250)
    subjects = [one["subject"] for one in first["subscriptions"] + second["subscriptions"]]
    assert subjects == [f"/a/{number:03}" for number in range(250)]


def test_how_far_a_slow_client_is_behind(ward: Sidecar, control: Control) -> None:
    """In its queue, message by message; and where a number stands for them, how many that are."""
    with WireClient(ward, receive_bytes=4096) as client, WirePublisher(ward, mint("bob")) as publisher:
        client.subscribe("/a/queue")
        client.subscribe("/a/number", slow="conflate")
        for _ in range(14):
            publisher.publish(*(["/a/queue", FILLER] for _ in range(200)), ["/a/number", "1"])
        name = until(lambda: control.clients(slow=True)["clients"])[0]["connection"]
        until(lambda: control.client(name)["lagging"])
        for _ in range(3):
            publisher.publish(["/a/number", "1"])
        found = control.client(name)
        number, queue = found["subscriptions"]
        assert (queue["state"], queue["newest"]) == ("queued", 2800)
        # Of one frame a part may have been sent, and a frame is the content and some bytes.
        assert 0 <= queue["behind"] - found["queue_bytes"] // (len(FILLER) + 30) < 25
        assert queue["seq"] == 2800 - queue["behind"]
        assert found["queued"][0] == ["/a/queue", queue["behind"]]
        assert found["queued"][1][0] == "/a/number"
        assert number["state"] == "behind"
        assert number["behind"] == 17
        client.texts(2800)
        until(lambda: client.message() and control.client(name)["subscriptions"][1]["state"] == "live")


@pytest.mark.parametrize("form", ["msgpack", "stream", "poll"])
def test_what_waits_for_a_client_is_counted_in_every_form(ward: Sidecar, control: Control, form: str) -> None:
    with client_of(ward, form, receive_bytes=4096) as client, WirePublisher(ward, mint("bob")) as publisher:
        client.subscribe(f"/a/{form}")
        for _ in range(7):
            publisher.publish(*([f"/a/{form}", FILLER] for _ in range(200)))
        name = until(lambda: control.clients(slow=True)["clients"])[0]["connection"]
        found = until(lambda: (one := control.client(name))["subscriptions"][0]["newest"] == 1400 and one)
        [subscription] = found["subscriptions"]
        assert 0 < subscription["behind"] == found["queued"][0][1]
        assert abs(subscription["behind"] - found["queue_bytes"] // (len(FILLER) + 30)) < 25


def test_why_nothing_is_read_from_a_client(ward: Sidecar, control: Control) -> None:
    with WireClient(ward) as client:
        client.ask("connect", "connected")
        # In one piece: it is held for seconds, however slow this side is.
        client.send(masked(TEXT, b'{"op":"ping","id":1}') * 6000)
        found = until(lambda: (one := control.client(only(control)))["held_until"] and one)
        assert found["held"] == ["it has said more than it may at a time"]
        assert found["held_until"] > time.time() * 1000 - 1000


def test_a_ping_is_a_round_trip_of_its_own(ward: Sidecar, control: Control) -> None:
    """The pong that counts is the one with its payload; the client learns of no command."""
    with WireClient(ward) as client, ThreadPoolExecutor(1) as pool:
        client.ask("connect", "connected")
        asked = pool.submit(control.ping, only(control))
        opcode, payload = client.next_frame()
        while not payload:  # the server's own
            opcode, payload = client.next_frame()
        assert opcode == PING
        client.frame(PONG, b"another")
        client.frame(PONG, b"")
        assert wait([asked], 0.05).not_done
        client.frame(PONG, payload)
        assert 0 < asked.result() < 4000
        client.frame(PONG, payload)  # once more: nobody asks any longer
        assert client.ask("ping", "pong")


@pytest.mark.slow
def test_who_does_not_answer_a_ping(ward: Sidecar, control: Control) -> None:
    with WireClient(ward) as client:
        client.ask("connect", "connected")
        with pytest.raises(ControlRefused, match="timeout: the client has not answered within 4 s"):
            control.ping(only(control))
        assert client.ask("ping", "pong"), "it is as it was"


def test_disconnect_by_connection_and_by_user(ward: Sidecar, control: Control) -> None:
    """With the code and the reason; only those that are meant, publishers included; counted."""
    before = control.stats()
    clients = [WireClient(ward) for _ in range(4)]
    try:
        for client, user in zip(clients, ("ann", "ann", "anna", "bob"), strict=True):
            client.ask("connect", "connected", token=mint(user))
        one, two, other, bob = clients
        name = control.clients(user="bob")["clients"][0]["connection"]
        assert control.disconnect(connection=name, reason="wrong desk") == {"clients": 1, "publishers": 0}
        assert closed(bob) == (4506, "closed_by_operator: wrong desk")
        with pytest.raises(ControlRefused, match="unknown"):
            control.disconnect(connection=name)
        with WirePublisher(ward, mint("ann")) as publisher:
            assert control.disconnect(user="ann", reason="x" * 100) == {"clients": 2, "publishers": 1, "away": []}
            assert publisher.closed() == (4506, f"closed_by_operator: {'x' * 100}")
        assert closed(one) == closed(two) == (4506, f"closed_by_operator: {'x' * 100}")
        assert other.ask("ping", "pong")
        with WirePublisher(ward, mint("carl")) as publisher:
            publisher.publish(["/a/one", "1"])
            numbers = (f"0.{ward.pid}.p{number}" for number in range(1, 100))
            assert any(_disconnected(control, name) for name in numbers)
            assert publisher.closed()[0] == 4506
        closes = "disconnects_closed_by_operator"
        until(lambda: control.stats()[closes] - before.get(closes, 0) >= 3)
    finally:
        for client in clients:
            client.sock.close()


def _disconnected(control: Control, name: str) -> bool:
    try:
        return bool(control.disconnect(connection=name)["publishers"])
    except ControlRefused:
        return False


def closed(client: WireClient) -> tuple[int, str]:
    """The code and the whole reason with which the server closes."""
    while True:
        opcode, payload = client.next_frame()
        if opcode == 8:
            return int.from_bytes(payload[:2]), payload[2:].decode()


def test_a_subject_and_what_is_cached_of_it(ward: Sidecar, control: Control) -> None:
    for number in range(1, 31):
        control.publish([["/a/kept", f"{number}", {"n": str(number)}]])
    control.publish([["/a/kept", "not kept", None, {"retained": False}]])
    with WireClient(ward) as by_name, WireClient(ward) as by_pattern, WireClient(ward) as conflated:
        by_name.subscribe("/a/kept")
        by_pattern.subscribe("/a/*")
        conflated.subscribe("/a/kept", conflation=1000)
        until(lambda: control.subject("/a/kept")["patterns"] == 1)
        found = control.subject("/a/kept")
    snapshot = found.pop("snapshot")
    assert (snapshot["content"], snapshot["fields"], snapshot["seq"]) == ("30", {"n": "30"}, 31)
    assert (found.pop("epoch"), found.pop("newest_time")) == (snapshot["epoch"], until(lambda: newest(control)))
    assert found.pop("cached_bytes") > 31 * 300
    assert 31 / 60 - 0.1 <= found.pop("messages_per_s") <= 31 / 60 + 0.1
    assert found.pop("bytes_per_s") > 1
    assert found == {
        "subject": "/a/kept",
        "seq": 31,
        "cached": 31,
        "oldest_seq": 1,
        "options": {
            "cache_messages": 1000,
            "cache_ms": 180_000,
            "conflation_ms": 0,
            "retained": True,
            "delivery": "guaranteed",
            "presence": None,
            "publish_rate": 0,
            "patterns": {},
        },
        "stale": False,
        "subscribers": 3,
        "patterns": 1,
        "conflated": 1,
        "behind": 0,
        "away": [],
    }
    page = control.history("/a/kept", limit=12)
    seen = [one["seq"] for one in page["messages"]]
    assert page["messages"][0] == {
        "subject": "/a/kept",
        "epoch": snapshot["epoch"],
        "seq": 31,
        "time": page["messages"][0]["time"],
        "content": "not kept",
        "fields": {},
        "retained": False,
        "qos": "guaranteed",
        "bytes": 8,
        "reply_to": "",
        "closure": "",
        "as_of": None,
    }
    while page["more"]:
        page = control.history("/a/kept", before=seen[-1], limit=12)
        seen += [one["seq"] for one in page["messages"]]
    assert seen == list(range(31, 0, -1))
    assert control.history("/a/kept", before=1) == {"messages": [], "more": False}


def newest(control: Control) -> Any:
    """When the newest message came."""
    return control.history("/a/kept", limit=1)["messages"][0]["time"]


def test_what_is_long_is_cut(control: Control) -> None:
    text, fields = "ü" * 20_000, {"a": "x" * 10_000, "b": "y" * 10_000, "c": "z"}
    control.publish([["/a/long", text, fields], ["/a/long", b"\x00" * 20_000]])
    binary, long = control.history("/a/long")["messages"]
    assert (long["content"], long["cut"]) == ("ü" * (8 << 10), 60_004)
    assert {name: len(value) for name, value in long["fields"].items()} == {"a": 10_000, "b": (16 << 10) - 10_001}
    assert (len(binary["content"]["b"]), binary["cut"]) == (-(-(16 << 10) // 3) * 4, 20_000)


@pytest.mark.parametrize(
    ("verb", "arguments", "text"),
    [
        ("client", {"connection": "0.1.1"}, "unknown: there is no such connection"),
        ("client", {"connection": "7.1.1"}, "timeout: worker 7 does not answer"),
        ("client", {}, "the argument connection is missing"),
        ("client", {"connection": "0.x.1"}, "WORKER.PID.NUMBER"),
        ("client", {"connection": "٣.1.1"}, "WORKER.PID.NUMBER"),
        ("client", {"connection": ["0"]}, "WORKER.PID.NUMBER"),
        ("ping", {"connection": "0.1.1"}, "unknown"),
        ("ping", {"connection": f"0.{1 << 80}.1"}, "unknown|WORKER.PID.NUMBER"),
        ("disconnect", {}, "a connection or a user"),
        ("disconnect", {"user": "ann", "connection": "0.1.1"}, "a connection or a user"),
        ("disconnect", {"user": "ann", "reason": "x" * 101}, "reason is a text of at most 100"),
        ("disconnect", {"connection": "0.1.p1"}, "unknown"),
        ("subject", {"subject": "/none/here"}, "unknown: nobody publishes or subscribes"),
        ("subject", {"subject": "none"}, "invalid"),
        ("history", {"subject": "/none/here"}, "unknown"),
        ("history", {"subject": "/a/kept", "limit": 101}, "limit is a number from 1 to 100"),
        ("history", {"subject": "/a/kept", "before": -1}, "before is a number"),
    ],
)
def test_refusals(control: Control, verb: str, arguments: dict, text: str) -> None:
    with pytest.raises(ControlRefused, match=text):
        control.call(verb, arguments)
