"""The control socket: its verbs and errors, packets that are none, and the file itself."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.core.protocol.errors import InvalidMessage
from fastpath.core.protocol.packets import pack
from fastpath.edge.control.connection import ControlConnection
from fastpath.edge.runtime.component import ControlPeer, Offers, Plain
from fastpath.server.components import Node, make_runtime
from fastpath.settings import Settings
from tests.support.edge.rules import rule
from tests.support.edge.wire import WireClient, packed, undisturbed
from tests.support.rights import load_rights
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until

ALICE = {"id": 1, "who": "user:5", "pattern": "/c/**", "action": "both", "allow": True}


@pytest.fixture(scope="module")
def rules() -> Iterator[Sidecar]:
    """A sidecar with one rule, of generation 7."""
    with Sidecar(mode="rules", token_secret=SECRET) as running, Control(running.control) as control:
        control.rules_begin(7)
        control.rules_chunk(rules=[ALICE])
        control.rules_commit(7)
        yield running


@pytest.fixture
def control(rules: Sidecar) -> Iterator[Control]:
    """A connection to it."""
    with Control(rules.control) as connection:
        yield connection


def raw(path: str, data: bytes) -> list[Any]:
    """All that is answered to these bytes, with the end of what is sent."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(path)
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := peer.recv(65_536):
            got += chunk
    answers = []
    while got:
        size = int.from_bytes(got[:4])
        answers.append(msgspec.msgpack.decode(got[4 : 4 + size]))
        got = got[4 + size :]
    return answers


def test_hello(rules: Sidecar, control: Control) -> None:
    answer = control.hello()
    names = {"version", "server", "pid", "mode", "epoch", "generation", "engine", "shared", "draining"}
    assert answer.keys() == names | {"options", "accepts", "message_bytes_max"}
    assert answer["message_bytes_max"] == 1 << 20
    assert (answer["version"], answer["pid"], answer["mode"]) == (1, rules.pid, "rules")
    assert isinstance(answer["generation"], int)
    with pytest.raises(ControlRefused, match="version 1"):
        control.call("hello", {"version": 2})


def test_before_the_rights_have_come() -> None:
    with Sidecar(mode="rules", token_secret=SECRET) as fresh, Control(fresh.control) as control:
        assert control.hello()["generation"] is None
        assert control.snapshot("/c/one", mint("alice", "5"))["status"] == "not_ready"
        check = control.check("/c/one", "subscribe", mint("alice", "5"))
        assert (check["allowed"], "not arrived" in check["reason"]) == (False, True)
        assert control.publish([["/c/one", "x"]])["results"] == [1], "Django may publish before"


def test_publish_and_snapshot(rules: Sidecar, control: Control) -> None:
    token = mint("alice", "5", generation=7)
    with WireClient(rules, path=f"/ws?token={token}") as client:
        client.subscribe("/c/shot")
        answer = control.publish([["/c/shot", "a", {"x": "1"}], ["/c/shot", "b", {"y": b"\x00"}]])
        assert answer["results"] == [1, 2]
        assert client.texts(2) == ["a", "b"]
    found = control.snapshot("/c/shot", token)
    message = found.pop("message")
    assert found == {"status": "found", "reason": ""}
    assert message.pop("time") > 1_700_000_000_000
    assert message == {
        "subject": "/c/shot", "content": "b", "fields": {"x": "1", "y": b"\x00"}, "epoch": answer["epoch"], "seq": 2,
        "as_of": None,
    }  # fmt: skip


def test_one_wrong_row_is_told_in_its_place(control: Control) -> None:
    rows = [["/c/rows", "a"], ["c/rows", "b"], 5, ["/__sys__/stats", "no"], ["/__sys/x", "is not the server's"]]
    results = control.publish(rows)["results"]
    assert [results[0], results[4]] == [1, 1]
    assert [result[0] for result in results[1:4]] == ["invalid", "invalid", "denied"]


SNAPSHOTS = {
    "none": ("/c/never", mint("alice", "5", generation=7), "none", "no message has been published yet"),
    "no right": ("/d/one", mint("alice", "5", generation=7), "denied", "no rule allows it"),
    "anonymous": ("/c/one", None, "denied", "no rule allows it"),
    "no subject": ("/c", mint("alice", "5", generation=7), "invalid", "only one segment"),
    "no token": ("/c/one", "hello", "bad_token", "the token is not valid: it has no header of a JWT"),
    "ended": ("/c/one", mint("alice", "5", hours=-1), "bad_token", "the token has expired"),
}


@pytest.mark.parametrize(("subject", "token", "status", "reason"), SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_no_snapshot(control: Control, subject: str, token: str | None, status: str, reason: str) -> None:
    answer = control.snapshot(subject, token)
    assert answer == {"status": status, "reason": reason, "message": None}


def test_check(control: Control) -> None:
    token = mint("alice", "5", generation=7)
    assert control.check("/c/one", "subscribe", token) == {"allowed": True, "reason": ""}
    assert control.check("/c/one", "publish", token) == {"allowed": True, "reason": ""}
    assert control.check("/d/one", "publish", token) == {"allowed": False, "reason": "no rule allows it"}
    assert control.check("/c", "publish", token) == {"allowed": False, "reason": "only one segment"}
    assert control.check("/c/x", "publish", "hello")["reason"].startswith("bad_token: ")
    with pytest.raises(ControlRefused, match="action is subscribe or publish"):
        control.check("/c/x", "read", token)


RATES = [
    f"{name}_per_s"
    for name in ("connections", "disconnections", "messages_in", "messages_out", "bytes_in", "bytes_out")
]
TOTALS = (
    "connections", "subjects", "subscriptions", "publishers", "waiting_subscriptions", "slow_closed",
    "cpu_percent", "memory_bytes", "uptime_s",
)  # fmt: skip


def test_stats(rules: Sidecar, control: Control) -> None:
    with WireClient(rules) as client:
        client.ask("ping", "pong")
        figures = control.stats()
    [alone] = figures.pop("by_worker")
    assert alone.items() >= {"worker": 0, "pid": rules.pid, "connections": 1}.items()
    assert figures["workers"] == 1
    assert {*RATES, *TOTALS} <= figures.keys()
    assert all(isinstance(value, int | float) for value in figures.values())
    assert figures["connections"] == 1
    assert figures["memory_bytes"] > 1 << 20


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "unknown verb": ("helo", {}, "invalid", "verbs: publish, hello, snapshot"),
    "no messages": ("publish", {}, "invalid", "the argument messages is missing"),
    "messages is a number": ("publish", {"messages": 5}, "invalid", "messages is a list"),
    "no subject": ("snapshot", {}, "invalid", "the argument subject is missing"),
    "no generation": ("rules_commit", {}, "invalid", "the argument generation is missing"),
    "generation is a word": ("rules_commit", {"generation": "x"}, "invalid", "ValueError"),
    "chunk before begin": ("rules_chunk", {"rules": [ALICE]}, "invalid", "rules_begin comes first"),
    "commit before begin": ("rules_commit", {"generation": 8}, "invalid", "rules_begin comes first"),
    "large chunk": ("rules_chunk", {"rules": [ALICE] * 1001}, "limit", "at most 1000 of each"),
    "rules is a number": ("rules_diff", {"after": 7, "generation": 8, "rules": 5}, "invalid", "Expected `array`"),
    "options are a number": ("rules_diff", {"after": 7, "generation": 8, "options": 5}, "invalid", "Expected `array`"),
    "stale": ("rules_diff", {"after": 6, "generation": 8}, "stale", "generation 7 is in force, not 6"),
}  # fmt: skip


@pytest.mark.parametrize(("verb", "arguments", "code", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(control: Control, verb: str, arguments: dict[str, Any], code: str, reason: str) -> None:
    with pytest.raises(ControlRefused) as error:
        control.call(verb, arguments)
    assert error.value.code == code
    assert reason in error.value.reason
    assert control.hello()["generation"] == 7, "nothing of a refused change is in force"


LEFT_OUT: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"rules": [5]}, "a rule without a number (Expected `object`, got `int`)"),
    "rule without pattern": ({"rules": [{"id": 1}]}, "rule 1 (Object missing required field `who`)"),
    "rule of another action": ({"rules": [ALICE | {"action": "read"}]}, "rule 1 (action 'read')"),
    "rule without a pattern's form": ({"rules": [ALICE | {"pattern": "c/**"}]}, "rule 1 (no leading slash)"),
    "options without a pattern's form": (
        {"options": [{"id": 3, "pattern": "/a/**/b"}]}, "options 3 (** only as the last segment)"),
    "options of the server's own subjects": (
        {"options": [{"id": 3, "pattern": "/__sys__/stats"}]},
        "options 3 (subjects below /__sys__ belong to the server)"),
    "options beyond their bounds": (
        {"options": [{"id": 3, "pattern": "/a/b", "cache_ms": -1}]},
        "options 3 (Expected `int` >= 0 - at `$.cache_ms`)"),
    "a user": ({"users": [{"uid": "7", "user": None}]}, "user 7 (Expected `str`, got `null` - at `$.user`)"),
}  # fmt: skip


@pytest.mark.parametrize("whole", [False, True], ids=["difference", "set"])
@pytest.mark.parametrize(("records", "named"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_cannot_be_read_is_named_and_stops_nothing(
    rules: Sidecar, control: Control, records: dict[str, Any], named: str, whole: bool
) -> None:
    """It is left out of what takes force, and told by ``health``, ``/readyz``, the figures and the log."""
    good = {"id": 2, "who": "user:5", "pattern": "/late/*", "action": "both", "allow": True}
    asked = records | {"rules": [*records.get("rules", ()), good]}
    try:
        if whole:
            control.rules_begin(8)
            control.rules_chunk(**asked)
            control.rules_commit(8)
        else:
            control.rules_diff(7, 8, **asked)
        assert control.check("/late/1", "publish", mint("alice", "5", generation=7))["allowed"]
        health = control.health()
        assert health["ready"]
        assert named in health["warnings"]["rights"]
        until(lambda: control.stats().get("rights_left_out") == 1)
        until(lambda: "cannot be read and is left out" in rules.log)
    finally:
        load_rights(rules.control, ALICE, generation=7)
    assert "warnings" not in control.health()


@pytest.mark.parametrize("mode", [{"mode": "none"}, {"mode": "jwt", "token_secret": SECRET}], ids=["none", "jwt"])
def test_in_modes_other_than_rules_django_brings_options_alone(mode: dict[str, Any]) -> None:
    one = {"id": 1, "pattern": "/o/**", "cache_messages": 1}
    with Sidecar(**mode) as sidecar, Control(sidecar.control) as control:
        assert (control.hello()["accepts"], control.hello()["generation"]) == ("options", None)
        control.rules_begin(7)
        with pytest.raises(ControlRefused, match="not rules: it takes options alone"):
            control.rules_chunk(rules=[rule(1, "/o/**")])
        control.rules_chunk(options=[one])
        control.rules_commit(7)
        assert control.hello()["generation"] == 7
        control.publish([["/o/a", "1"], ["/o/a", "2"]])
        assert control.subject("/o/a")["cached"] == 1
        with pytest.raises(ControlRefused, match="generation 7 is in force, not 6"):
            control.rules_diff(6, 8, options=[])
        for rights in ({"users": [{}]}, {"sessions": [{}]}, {"removed": [1]}, {"rules": [rule(1, "/o/**")]}):
            with pytest.raises(ControlRefused, match="not rules: it takes options alone"):
                control.rules_diff(7, 8, options=[], **rights)
        control.rules_diff(7, 8)
        control.publish([["/o/b", "1"], ["/o/b", "2"]])
        assert (control.hello()["generation"], control.subject("/o/b")["cached"]) == (8, 1)
        control.rules_diff(8, 9, options=[])
        control.publish([["/o/c", "1"], ["/o/c", "2"]])
        assert (control.hello()["generation"], control.subject("/o/c")["cached"]) == (9, 2)


MALFORMED = {
    "no MessagePack": b"\x00\x00\x00\x01\xc1",
    "a map": b"\x00\x00\x00\x01\x80",
    "over 16 MiB": ((16 << 20) + 1).to_bytes(4),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_packet_ends_its_connection(shared: Sidecar, data: bytes) -> None:
    with undisturbed(shared), Control(shared.control) as other:
        first, last = raw(shared.control, packed(5, "hello", {}) + data + packed(6, "hello", {}))
        assert first[:2] == [5, "ok"]
        assert last[:2] == [0, "error"]
        assert last[2]["code"] == "invalid"
        assert other.hello()["version"] == 1


@pytest.mark.parametrize("packet", [[], [5], ["x", "hello", {}], [5, "hello"], [5, 6, {}], [5, "hello", []]])
def test_what_is_no_request_is_answered(shared: Sidecar, packet: list[Any]) -> None:
    bad, good = raw(shared.control, packed(*packet) + packed(9, "hello", {}))
    number = packet[0] if packet and isinstance(packet[0], int) else 0
    assert bad[:2] == [number, "error"]
    assert bad[2]["reason"].startswith("a request is [id, verb, {…}]; verbs: publish, hello")
    assert good[:2] == [9, "ok"]


def test_a_fault_while_answering_is_no_end(shared: Sidecar) -> None:
    odd = [
        ("snapshot", {"subject": 5}),
        ("snapshot", {"subject": "/a/b", "token": 5}),
        ("check", {"action": "publish"}),
    ]
    answers = raw(shared.control, b"".join(packed(n, *one) for n, one in enumerate(odd)) + packed(9, "hello", {}))
    assert answers[0][2]["status"] == "invalid"
    assert answers[2][1] == "error"
    assert answers[3][:2] == [9, "ok"]


# The file


def test_without_hooks_there_is_nobody_to_answer(control: Control) -> None:
    for verb in ("hooks", "answer", "recheck"):
        with pytest.raises(ControlRefused, match="verbs:"):
            control.call(verb, {"ask": 1})


OWN = ("publish", "hello", "snapshot", "check", "stats", "rules_begin", "rules_chunk", "rules_commit", "rules_diff")


async def test_a_connection_has_no_verbs_of_its_own(tmp_path: Path) -> None:
    """What components offer is all that there is, and whoever offers one last answers it: at once, later, or with what
    it raises; it sees Django, which may do everything."""
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    Node(runtime)
    assert {*OWN, "drain", "undrain"} <= runtime.verbs.keys()

    def mine(peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any] | None:
        assert peer.principal is None
        if arguments.get("later"):
            runtime.loop.call_soon(peer.reply, peer.request, {"later": True})
            return None
        if arguments.get("wrong"):
            raise InvalidMessage("denied", "not today")
        return {"mine": arguments}

    runtime.serve(Plain(Offers(verbs=dict.fromkeys(OWN, mine))))
    path = str(tmp_path / "c.sock")
    async with await asyncio.get_running_loop().create_unix_server(lambda: ControlConnection(runtime), path):
        reader, writer = await asyncio.open_unix_connection(path)
        for number, verb in enumerate(OWN, 1):
            for arguments, kind, answer in (
                ({"one": number}, "ok", {"mine": {"one": number}}),
                ({"later": True}, "ok", {"later": True}),
                ({"wrong": True}, "error", {"code": "denied", "reason": "not today"}),
            ):
                writer.write(pack([number, verb, arguments]))
                size = int.from_bytes(await reader.readexactly(4))
                assert msgspec.msgpack.decode(await reader.readexactly(size)) == [number, kind, answer]
        writer.close()
    runtime.stop()


def test_only_its_owner_may_open_it(shared: Sidecar) -> None:
    assert stat.S_IMODE(os.stat(shared.control).st_mode) == 0o600
    assert stat.S_ISSOCK(os.stat(shared.control).st_mode)


def test_it_goes_with_the_sidecar_and_what_a_crash_left_is_replaced() -> None:
    with Sidecar() as sidecar:
        path = Path(sidecar.control)
        sidecar.kill()
        assert path.exists()
        with pytest.raises(SidecarUnavailable):
            Control(str(path)).hello()
        sidecar.start()
        with Control(str(path)) as control:
            assert control.hello()["pid"] == sidecar.pid
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        sidecar.stop()
        assert not path.exists()


def start_at(path: Path | str) -> str:
    """The words of a sidecar that cannot open its control socket."""
    environment = {"FASTPATH_MODE": "none", "FASTPATH_LISTEN": "clients://127.0.0.1:0", "FASTPATH_CONTROL": str(path)}
    command = [sys.executable, "-m", "fastpath"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_one_that_is_served_is_refused(shared: Sidecar) -> None:
    words = start_at(shared.control)
    assert words == f"fastpath: FASTPATH_CONTROL: another sidecar serves {shared.control}\n"
    with Control(shared.control) as control:
        assert control.hello()["pid"] == shared.pid


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert start_at(file) == f"fastpath: FASTPATH_CONTROL: {file} exists and is no socket\n"
    assert file.read_text() == "mine"


def test_a_folder_that_is_not_there_and_a_path_that_is_too_long(tmp_path: Path) -> None:
    assert f"FASTPATH_CONTROL: cannot listen on {tmp_path}/no/c.sock" in start_at(tmp_path / "no" / "c.sock")
    assert "FASTPATH_CONTROL: cannot listen on " in start_at(tmp_path / ("x" * 150))


def test_a_peer_that_takes_no_answers_is_not_read() -> None:
    """Nor is what it has asked answered: once it reads, it gets all of it in order."""
    count = 400
    requests = [
        msgspec.msgpack.encode([number, "history", {"subject": "/a/b", "limit": 100}]) for number in range(count)
    ]
    with Sidecar() as sidecar, Control(sidecar.control) as control, socket.socket(socket.AF_UNIX) as peer:
        control.publish([["/a/b", "x" * 16_000] for _ in range(100)])
        before = control.stats()["memory_bytes"]
        peer.connect(sidecar.control)
        peer.sendall(b"".join(len(request).to_bytes(4) + request for request in requests))
        for _ in range(20):
            control.hello()
        assert control.stats()["memory_bytes"] < before + (40 << 20)
        peer.settimeout(PATIENCE_SECONDS)
        stream = peer.makefile("rb")
        for number in range(count):
            answer = msgspec.msgpack.decode(stream.read(int.from_bytes(stream.read(4))))
            assert (answer[0], answer[1], len(answer[2]["messages"])) == (number, "ok", 16)
        assert control.stats()["memory_bytes"] < before + (40 << 20)
