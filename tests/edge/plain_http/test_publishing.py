"""Publishing over HTTP: what each message is answered, who may, and that a repeated request is stored once."""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastpath.client.control.client import Control
from tests.fuzz.world import World
from tests.support.audit import Written
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.wire import WireClient
from tests.support.guide import Block, every
from tests.support.hook import Answering, denying, named
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until

MSGPACK = "application/msgpack"


def message(subject: str, content: Any = "x", **keys: Any) -> dict[str, Any]:
    """A message of a body."""
    return {"subject": subject, "content": content} | keys


def statuses(results: list[dict[str, Any]]) -> list[str]:
    """What became of each message."""
    return [result["status"] for result in results]


def test_what_replaces_leaves_no_field_of_before(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        peer.publish(message("/pub/replaced", "1", fields={"a": "1"}))
        assert statuses(peer.publish(message("/pub/replaced", "2", fields={"b": "2"}, replace=True))) == ["ok"]
        assert peer.ask("GET", "/snapshot?subject=/pub/replaced").json["fields"] == {"b": "2"}
        (one,) = peer.publish(message("/pub/replaced", "3", replace=True, retained=False))
        assert (one["status"], "only for what goes into the snapshot" in one["reason"]) == ("invalid", True)


def test_a_removed_subject_has_no_snapshot_and_its_history_says_so(shared: Sidecar) -> None:
    subject = "/pub/removed"
    with HttpPeer(shared) as peer, WireClient(shared) as reader:
        reader.subscribe(subject)
        results = peer.publish(
            [message(subject, "1", fields={"a": "1"}), {"subject": subject, "removed": True, "closure": "c"}]
        )
        assert [(one["status"], one["seq"]) for one in results] == [("ok", 1), ("ok", 2)]
        assert [reader.message()[3:] for _ in range(2)] == [
            ["1", {"a": "1"}],
            ["", None, {"closure": "c", "removed": True}],
        ]
        assert peer.ask("GET", f"/snapshot?subject={subject}").status == 404
        (found,) = peer.history(subject=subject)
        assert [(one["seq"], one["content"], one.get("removed")) for one in found["messages"]] == [
            (1, "1", None),
            (2, "", True),
        ]
        assert statuses(peer.publish(message(subject, "2"))) == ["ok"]
        assert peer.ask("GET", f"/snapshot?subject={subject}").json["fields"] == {}


def test_one_or_many_in_order_each_with_its_outcome(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer, WireClient(shared) as reader:
        reader.subscribe("/pub/one")
        (one,) = peer.publish(message("/pub/one", "1", fields={"a": "b"}, as_of={"time": 5, "version": 7}))
        assert (one["status"], one["seq"]) == ("ok", 1)
        assert one["epoch"] > 0
        results = peer.publish(
            {
                "messages": [
                    message("/pub/one", "2", retained=False, qos="standard", reply_to="/r/s", closure="c"),
                    message("/pub/one", {"b": base64.b64encode(b"\x00\xff").decode()}),
                    message("/pub/one", 5),
                    message("pub"),
                    message("/__sys__/one"),
                    message("/pub/one", "x" * (1 << 20), fields={"y": "z"}),
                    message("/pub/one", retain=False),
                    message("/pub/one", as_of={"version": 3}),
                    message("/pub/one", as_of=1795883791704842422),
                    message("/pub/one", "3"),
                ]
            }
        )
        assert statuses(results) == [
            *("ok", "ok", "invalid", "invalid", "denied", "too_large", "invalid", "outdated", "invalid", "ok")
        ]
        assert "epoch" not in results[0], "of standard quality nothing is numbered"
        assert [results[1]["seq"], results[-1]["seq"]] == [2, 3]
        assert all(result["reason"] for result in results if result["status"] != "ok")
        rows = [reader.message() for _ in range(4)]
        assert [row[3] for row in rows] == ["1", "2", {"b": "AP8="}, "3"]
        assert rows[1][5] == {"retained": False, "reply_to": "/r/s", "closure": "c"}


def test_messagepack_both_ways(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        body = msgspec.msgpack.encode([message("/pack/one", b"\x00\xff", fields={"f": b"\x01"})])
        answer = peer.ask("POST", "/api/publish", body, Content_Type=MSGPACK, Accept=MSGPACK)
        assert answer.headers["content-type"] == MSGPACK
        assert answer.json["results"][0]["status"] == "ok"
        shown = peer.ask("GET", "/snapshot?subject=/pack/one", Accept=f"text/html, {MSGPACK};q=0.9").json
        assert (shown["content"], shown["fields"]) == (b"\x00\xff", {"f": b"\x01"})
        assert peer.ask("GET", "/snapshot?subject=/pack/one").json["content"] == {"b": "AP8="}


BAD_BODIES = {
    "no JSON": b"{",
    "a number": b"5",
    "an empty list": b"[]",
    "a list of lists": b"[[]]",
    "something beside messages": b'{"messages":[{}],"more":1}',
    "deep": b"[" * 100_000,
    "too many": json.dumps([message("/bad/one")] * 1001).encode(),
    "not UTF-8": b'{"subject":"/bad/one","content":"\xff"}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_none_is_refused_and_the_connection_goes_on(shared: Sidecar, body: bytes) -> None:
    with HttpPeer(shared) as peer:
        answer = peer.ask("POST", "/api/publish", body)
        assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
        assert answer.json["detail"]
        assert peer.ask("POST", "/api/publish?what=1", b"{}").status == 400
        assert statuses(peer.publish(message("/bad/two"))) == ["ok"]


# Once


def test_a_repeated_request_is_stored_once(shared: Sidecar) -> None:
    rows = [message("/once/one", "1"), message("bad"), message("/once/two", "2")]
    with HttpPeer(shared) as peer, HttpPeer(shared) as other:
        first = peer.publish(rows, Idempotency_Key="order-17")
        assert statuses(first) == ["ok", "invalid", "ok"]
        assert other.publish(rows, Idempotency_Key='"order-17"') == first, "in quotes as in the draft of the IETF"
        again = peer.publish(rows, Idempotency_Key="order-18")
        assert [again[0]["seq"], again[2]["seq"]] == [2, 2]
        assert [one["seq"] for one in peer.history(subject=["/once/one", "/once/two"])] == [2, 2]
        for key in ("x" * 201, '""', "\x80"):
            data = call_bytes("POST", "/api/publish", json.dumps(rows).encode())
            peer.send(data.replace(b"\r\n", f"\r\nIdempotency-Key: {key}\r\n".encode("latin-1"), 1))
            assert peer.response().status == 400


@pytest.mark.parametrize("workers", [1, 2])
def test_a_repeated_request_is_stored_once_over_a_restart(tmp_path: Path, workers: int) -> None:
    """The journal has what was stored, and under which number; an answer comes when the disk has it."""
    with Sidecar(journal="batch", data=tmp_path / "data", workers=workers) as sidecar:
        rows = [message("/kept/one", str(number)) for number in range(5)]
        with HttpPeer(sidecar) as peer:
            first = peer.publish(rows, Idempotency_Key="k")
            assert [result["seq"] for result in first] == [1, 2, 3, 4, 5]
        sidecar.kill()
        sidecar.start()
        with HttpPeer(sidecar) as peer:
            assert peer.publish(rows, Idempotency_Key="k") == first
            (found,) = until(lambda: (got := peer.history(subject="/kept/one")) and got[0]["seq"] == 5 and got)
            assert [one["content"] for one in found["messages"]] == ["0", "1", "2", "3", "4"]


def test_every_worker_answers_alike() -> None:
    """Followers hand publications to the first worker, and have what is read themselves."""
    with Sidecar(workers=2) as sidecar:
        peers = [HttpPeer(sidecar) for _ in range(12)]
        try:
            found = [peer.publish(message("/workers/one", str(number)))[0] for number, peer in enumerate(peers)]
            assert [one["seq"] for one in found] == list(range(1, 13))
            assert len({one["epoch"] for one in found}) == 1
            for peer in peers:
                (read,) = peer.history(subject="/workers/one")
                assert [one["content"] for one in read["messages"]] == [str(number) for number in range(12)]
                assert peer.publish(message("/workers/two"), Idempotency_Key="k")[0]["seq"] == 1
        finally:
            for peer in peers:
                peer.sock.close()


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """A world of the fuzz targets silences the log of its process, which other tests share."""
    before = logging.root.manager.disable
    yield
    logging.disable(before)


@pytest.mark.usefixtures("log_as_before")
def test_a_publication_waits_while_others_are_behind() -> None:
    """As those of clients and publishers do; it is answered when there is room again."""
    world = World()
    caller, gone = world.piped(), world.piped()
    world.runtime.congest(True)
    for one in (caller, gone):
        one.received(call_bytes("POST", "/api/publish", json.dumps(message("/held/one")).encode()))
    gone.lost()
    world.turn()
    assert caller.written == b""
    world.runtime.congest(False)
    world.turn()
    assert b'"seq":1}' in caller.written
    assert gone.written == b""
    assert world.runtime.broker.interest.topics["/held/one"].seq == 1, "who has gone is not published for"
    world.end(caller)


def test_a_node_that_stops_waits_for_nobody() -> None:
    with Sidecar() as sidecar, HttpPeer(sidecar) as idle, HttpPeer(sidecar) as waiting:
        (one,) = idle.history(subject="/stop/one")
        waiting.send(call_bytes("GET", f"/api/history?subject=/stop/one&since={one['epoch']},0&wait=30"))
        sidecar.stop()
        assert idle.ended
        assert waiting.ended, "and had no answer, as it would have when its time is over"


# Who may


def outcomes(sidecar: Sidecar, subject: str, *tokens: str) -> list[str]:
    """What publishing and reading come to, for each token: the status of HTTP, or of the message."""
    found = []
    for token in tokens:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with HttpPeer(sidecar) as peer:
            body = json.dumps(message(subject)).encode()
            published = peer.ask("POST", "/api/publish", body, **headers)
            text = published.json["results"][0]["status"] if published.status == 200 else str(published.status)
            read = peer.ask("GET", f"/api/history?subject={subject}", **headers).status
            assert peer.ask("GET", f"/api/history?subject={subject}&token={token}").status == read
            found.append(f"{text} {read}")
    return found


def test_mode_basic() -> None:
    """Any text is a token: also one that is not Latin."""
    with Sidecar(mode="basic", publish_token="schlüssel→") as sidecar:
        with HttpPeer(sidecar) as peer:
            body = json.dumps(message("/basic/one")).encode()
            head = b"POST /api/publish HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            token = "Authorization: Bearer schlüssel→\r\n".encode()
            peer.send(head + token + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert statuses(peer.response().json["results"]) == ["ok"]
        assert outcomes(sidecar, "/basic/one", "", "nonsense")[0] == "denied 200"


def test_mode_jwt() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        tokens = (
            mint_jwt("ann", both=["/jwt/**"]),
            mint_jwt("ann", publish=["/jwt/**"]),
            mint_jwt("ann", subscribe=["/jwt/**"]),
            mint_jwt("ann", both=["/jwt/**"], hours=-1),
            mint_jwt("ann", both=["/jwt/**"], secret="x" * 40),
            "nonsense",
            "",
        )
        answers = ["ok 200", "ok 403", "denied 200", "401 401", "401 401", "401 401", "denied 403"]
        assert outcomes(sidecar, "/jwt/one", *tokens) == answers
        with HttpPeer(sidecar) as peer:
            refused = peer.ask("GET", "/snapshot?subject=/jwt/one", Authorization="Bearer nonsense")
            assert refused.headers["www-authenticate"] == "Bearer"


def test_mode_rules() -> None:
    """Before the rights have come it is later; then they decide, and a change counts at once."""
    with Sidecar(mode="rules", token_secret=SECRET) as sidecar:
        ann, bob = mint("ann"), mint("bob")
        with HttpPeer(sidecar) as peer:
            early = peer.ask("GET", "/snapshot?subject=/rules/one", Authorization=f"Bearer {ann}")
            assert (early.status, early.headers["retry-after"]) == (503, "1")
        load_rights(sidecar.control, rule(1, "user:ann", "/rules/**"), rule(2, "everyone", "/rules/*", "subscribe"))
        assert outcomes(sidecar, "/rules/one", ann, bob, "") == ["ok 200", "denied 200", "denied 200"]
        load_rights(sidecar.control, rule(1, "user:ann", "/rules/**", "publish"), generation=2)
        assert outcomes(sidecar, "/rules/one", ann, bob, "") == ["ok 403", "denied 403", "denied 403"]


def test_keys_are_a_user_s_own() -> None:
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar, HttpPeer(sidecar) as peer:
        for number, user in enumerate(("ann", "bob"), 1):
            headers = {"Authorization": f"Bearer {mint_jwt(user, both=['/own/**'])}", "Idempotency_Key": "k"}
            assert peer.publish(message("/own/one"), **headers)[0]["seq"] == number


@pytest.fixture(scope="module")
def custom() -> Iterator[Sidecar]:
    """A sidecar that asks a hook about everything."""
    with Sidecar(mode="custom", hook_seconds=1) as running:
        yield running
        assert "Traceback" not in running.log


def test_a_hook_decides(custom: Sidecar) -> None:
    """It is asked as for a client, and told from where the request came; who gets no answer may try again."""
    rows = [message("/hook/one"), message("/hook/two"), message("/__sys__/x"), message("/hook/one")]
    with HttpPeer(custom) as peer:
        headers = {"Authorization": "Bearer ann", "X_Extra": "yes"}
        away = peer.publish(rows, **headers)
        assert statuses(away) == ["not_ready", "not_ready", "denied", "not_ready"]
        assert peer.ask("GET", "/snapshot?subject=/hook/one", **headers).status == 503
        with Answering(custom.control, named) as hook:
            assert statuses(peer.publish(rows, **headers)) == ["ok", "ok", "denied", "ok"]
            asked = hook.about("publish")[0]
            assert (asked["address"], asked["headers"]["x-extra"]) == ("127.0.0.1", "yes")
            assert peer.ask("GET", "/snapshot?subject=/hook/one", **headers).status == 200
            hook.rule = denying("subscribe")
            assert peer.ask("GET", "/snapshot?subject=/hook/one", **headers).status == 403
            found = peer.history(subject=["/hook/one", "/hook/two"])
            assert [one["status"] for one in found] == ["denied", "denied"]
            hook.rule = denying("publish")
            assert statuses(peer.publish(rows, **headers)) == ["denied"] * 4
            many = [message(f"/hook/n{number}") for number in range(101)]
            assert peer.ask("POST", "/api/publish", json.dumps(many).encode()).status == 400


def test_counted_audited_and_traced_as_others_are(tmp_path: Path) -> None:
    """Under a name of its own, with the address that a proxy tells."""
    with Sidecar(audit="access,message", audit_folder=tmp_path, publish_from="203.0.113.0/24") as sidecar:
        with HttpPeer(sidecar) as peer, Control(sidecar.control) as control:
            before = control.stats()
            assert statuses(peer.publish([message("/audit/one"), message("/audit/two", 5)])) == ["denied", "invalid"]
            headers = {"X_Forwarded_For": "203.0.113.9"}
            assert statuses(peer.publish(message("/audit/one"), **headers)) == ["ok"]
            after = control.stats()
            assert after["publications_refused"] - before["publications_refused"] == 2
            assert after["messages_in"] - before["messages_in"] == 1
        written = Written(tmp_path)
        published = written.find(event="published")
        assert (published["address"], published["subject"]) == ("203.0.113.9", "/audit/one")
        assert published["connection"].split(".")[2] == "h1"
        assert sorted(event["error"] for event in written.all(event="refused")) == ["denied", "invalid"]


INTERPRETERS = {"python": sys.executable, "sh": "sh", "php": "php", "ruby": "ruby"}
EXAMPLES = every("docs/reference/rest.md", pattern=r"\S+ (// )?publish\w*\.")
HERE = [block for block in EXAMPLES if shutil.which(INTERPRETERS[block.language])]
"""PHP and Ruby are not everywhere."""


@pytest.mark.parametrize("example", HERE, ids=lambda block: block.text.partition("\n")[0][-20:])
def test_the_examples_publish(shared: Sidecar, example: Block, tmp_path: Path) -> None:
    assert {block.language for block in EXAMPLES} == set(INTERPRETERS)
    file = tmp_path / "example"
    file.write_text(example.text, encoding="utf-8")
    site = shared.client_url.replace("ws://", "http://").removesuffix("/ws")
    environment = os.environ | {"SITE": site, "TOKEN": "any", "NO_PROXY": "*"}
    command = [INTERPRETERS[example.language], str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["results"][0]["status"] == "ok", done
