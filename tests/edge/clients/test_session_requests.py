"""Sessions over HTTP on the client port, from outside: what the clients of the socket say and hear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control, ControlRefused
from tests.support.audit import Written
from tests.support.edge.draining import OTHERS
from tests.support.edge.events import EventReader
from tests.support.edge.rules import rule, ruled
from tests.support.edge.sessions import Caller, Kind, PollSession, StreamSession
from tests.support.edge.spread import figures_by_worker
from tests.support.edge.wire import Socket, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

IBM = "/stocks/us/IBM"

kinds = pytest.mark.parametrize("kind", [StreamSession, PollSession])


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(mode="none", handshake_seconds=60) as sidecar:
        yield sidecar


def test_the_first_event_tells_the_terms(shared: Sidecar) -> None:
    with StreamSession(shared) as session:
        assert {"Content-Type: text/event-stream", "X-Accel-Buffering: no"} <= set(session.head.decode().split("\r\n"))
        assert session.terms.keys() == {"session", "heartbeat_ms", "poll_ms", "frame_bytes"}
        assert len(session.id) > 24


@kinds
def test_the_whole_protocol_of_the_socket(shared: Sidecar, kind: Kind) -> None:
    with kind(shared) as session, WireClient(shared) as other:
        session.say("connect", client="test/1")
        assert session.answer("connected")["ping_ms"] == session.terms["heartbeat_ms"]
        assert "sid" in session.subscribe("/a/1")[0]
        other.subscribe("/a/2")
        session.say("publish", subject="/a/1", content="x", closure="c")
        assert session.answer("published")["status"] == "ok"
        assert session.texts(1) == ["x"]
        session.say("ping")
        assert session.answer("pong")
        session.say("unsubscribe", subjects=["/a/1"])
        assert session.answer("unsubscribed")


@kinds
def test_each_frame_counts_once_and_none_is_passed_over(shared: Sidecar, kind: Kind) -> None:
    subject = f"/once/{kind.__name__}"
    with kind(shared) as session:
        frames = [{"op": "publish", "id": n, "subject": subject, "content": str(n)} for n in range(6)]
        session.subscribe(subject)
        assert session.post(*frames[:2]).status == 204
        assert session.post(*frames[:4], first=2).status == 204  # the first two again, as their answer was lost
        told = session.post(frames[5], first=7)
        assert (told.status, told.body["code"]) == (409, "gap")
        assert session.post(frames[4], first=6).status == 204
        assert session.texts(5) == [str(n) for n in range(5)]


def test_who_has_left_or_is_lost_is_no_session(shared: Sidecar) -> None:
    with StreamSession(shared) as session:
        assert session.poster.ask("DELETE", f"/session/{session.id}").status == 204
        assert session.rest() == b""
        told = session.post({"op": "ping", "id": 1})
        assert (told.status, told.body["code"]) == (404, "no_session")
        assert told.headers["content-type"] == "application/problem+json"
    with StreamSession(shared) as session, Caller(shared) as caller:
        assert caller.ask("POST", f"/session/{session.id}/close", b"").status == 204
        assert session.rest() == b""
    with StreamSession(shared) as session, Caller(shared) as caller:
        session.sock.close()
        until(lambda: caller.ask("POST", f"/session/{session.id}?n=1", b"", Content_Type="text/plain").status == 404)


def test_a_poll_is_answered_by_what_comes(shared: Sidecar) -> None:
    with PollSession(shared) as session, WirePublisher(shared) as other:
        assert session.first.headers["content-type"] == "application/x-ndjson"
        assert session.first.body.count(b"\n") == 1
        session.subscribe("/poll/a")
        session.poller.connection.request("GET", session.path)
        other.publish(["/poll/a", "1"])
        assert json.loads(session.poller.answer().body)[3] == "1"


def test_an_answer_that_was_lost_is_told_again(shared: Sidecar) -> None:
    with PollSession(shared) as session, WirePublisher(shared) as other:
        session.subscribe("/poll/b")
        other.publish(["/poll/b", "1"])
        before = session.path
        first = session.poll()
        assert session.poller.ask("GET", before) == first
        other.publish(["/poll/b", "2"])
        assert session.poller.ask("GET", before) == first
        assert session.texts(2) == ["1", "2"]
        told = session.poller.ask("GET", f"/session/poll?session={session.id}&ack={session.ack + 1}")
        assert (told.status, told.body["code"]) == (409, "gap")
        assert session.poller.ask("GET", before).status == 409


def test_of_two_polls_the_older_is_busy(shared: Sidecar) -> None:
    """Also where it is the younger question, which a network has overtaken: it could not tell an empty answer from the
    one that is counted, and would say of that one that it has arrived."""
    with PollSession(shared) as session, Caller(shared) as older, WirePublisher(shared) as other:
        session.subscribe("/poll/c")
        older.connection.request("GET", session.path)
        until(lambda: figures_by_worker(shared)[0]["polls_held"] == 1)
        session.poller.connection.request("GET", session.path)
        passed = older.answer()
        assert (passed.status, passed.body["code"]) == (503, "busy")
        other.publish(["/poll/c", "1"])
        assert json.loads(session.poller.answer().body)[3] == "1"


def test_an_answer_is_bounded_and_cut_between_frames(shared: Sidecar) -> None:
    with PollSession(shared) as session, WirePublisher(shared) as publisher:
        session.subscribe("/poll/d")
        texts = [str(number) + "x" * 10_000 for number in range(20)] + ["y" * 100_000]
        publisher.publish(*(["/poll/d", text] for text in texts))
        found = []
        while len(found) < len(texts):
            told = session.poll()
            lines = told.body.splitlines()
            assert len(lines) == 1 or len(told.body) <= 64 << 10
            found += [json.loads(line)[3] for line in lines]
        assert found == texts


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status", "text"),
    [
        ("PUT", "/session/0-a", b"", "text/plain", 405, "POST, DELETE"),
        ("GET", "/session/0-a?n=1", None, "", 405, "POST, DELETE"),
        ("POST", "/session/stream", b"{}", "application/json", 405, "GET"),
        ("POST", "/session/poll", b"{}", "application/json", 405, "GET"),
        ("POST", "/session/0-a?n=1", b"{}", "application/json", 415, "application/x-ndjson or text/plain"),
        ("POST", "/session/0-a?n=1", b"{}", "", 415, "application/x-ndjson or text/plain"),
        ("POST", "/session/0-a?n=0", b"{}", "text/plain", 400, "n is a whole number"),
        ("POST", "/session/0-a?n=x", b"{}", "text/plain", 400, "n is a whole number"),
        ("POST", "/session/0-a", b"{}", "text/plain", 400, "no n"),
        ("POST", "/session/0-a?n=1&m=2", b"{}", "text/plain", 400, "m is none of n, token"),
        ("POST", "/session/0-a?n=1", b"{}", "text/plain", 404, "begin another one"),
        ("POST", "/session/0-a/b?n=1", b"{}", "text/plain", 404, "begin another one"),
        ("POST", "/session/?n=1", b"{}", "text/plain", 404, "begin another one"),
        ("DELETE", "/session/0-a", None, "", 404, "begin another one"),
        ("GET", "/session/poll?session=0-a", None, "", 400, "no ack"),
        ("GET", "/session/poll?session=0-a&ack=1", None, "", 404, "begin another one"),
        ("GET", "/session/poll?ack=1", None, "", 400, "ack goes with session"),
        ("GET", "/session/poll?limit=1", None, "", 400, "limit is none of"),
        ("GET", "/sessions", None, "", 404, "/session/poll"),
    ],
)
def test_what_is_no_request_of_a_session(
    shared: Sidecar, method: str, path: str, body: bytes | None, kind: str, status: int, text: str
) -> None:
    with Caller(shared) as caller:
        told = caller.ask(method, path, body, **({"Content_Type": kind} if kind else {}))
    assert told.status == status
    assert text in json.dumps(told.body)
    assert status != 405 or text in told.headers["allow"]


def test_a_body_over_the_limit_is_not_read(shared: Sidecar) -> None:
    with PollSession(shared) as session:
        first = f"POST /session/{session.id}?n=1 HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        with Socket(
            shared.client_url, first=f"{first}Content-Length: {session.terms['frame_bytes'] + 1}\r\n\r\n".encode()
        ) as peer:
            assert peer.rest().startswith(b"HTTP/1.1 413 ")
        assert session.ask("ping", "pong")


def test_what_a_page_of_another_origin_may(shared: Sidecar) -> None:
    with Caller(shared) as caller:
        asked = {"Origin": "https://a.example", "Access_Control_Request_Method": "DELETE"}
        told = caller.ask("OPTIONS", "/session/0-a", **asked)
        assert (told.status, told.headers["access-control-allow-methods"]) == (204, "POST, DELETE, OPTIONS")
        assert caller.ask("HEAD", "/session/stream").headers["content-type"] == "text/event-stream"
        assert caller.ask("HEAD", "/session/poll").headers["content-type"] == "application/x-ndjson"
    with Sidecar(origins="https://a.example") as sidecar, Caller(sidecar) as caller:
        told = caller.ask("GET", "/session/poll", Origin="https://a.example")
        assert told.headers["access-control-allow-origin"] == "https://a.example"
        assert caller.ask("GET", "/session/poll", Origin="https://b.example").status == 403
        with StreamSession(sidecar, headers="Origin: https://b.example\r\n") as session:
            assert session.status == 403


@kinds
def test_a_frame_that_is_none_ends_the_session(shared: Sidecar, kind: Kind) -> None:
    with kind(shared) as session:
        told = session.post({"op": "ping", "id": 1}, b"[1]", {"op": "ping", "id": 2})
        assert (told.status, told.body["code"]) == (404, "no_session")
        assert session.answer("pong")["id"] == 1
        assert session.closed() == (4500, "bad_message")
        assert session.post({"op": "ping", "id": 3}).status == 404


@kinds
def test_a_bad_token_is_told_by_the_code_of_the_socket(kind: Kind) -> None:
    with ruled(rule(1, "/s/**")) as rights:
        with kind(rights.sidecar, query="?token=no.such.token") as session:
            assert session.closed()[0] == 4501
        token = mint("alice", generation=rights.generation)
        for session in (
            kind(rights.sidecar, query=f"?token={token}"),
            StreamSession(rights.sidecar, headers=f"Authorization: Bearer {token}\r\n"),
            PollSession(rights.sidecar, Authorization=f"Bearer {token}"),
        ):
            with session:
                assert session.ask("connect", "connected")["user"] == "alice"


def test_what_may_not_be_read_any_more_is_not_told_again() -> None:
    """An answer that was lost on its way is kept, and asked for again when the right has ended."""
    with ruled(rule(1, "/s/**")) as rights:
        token = mint("alice", generation=rights.generation)
        with PollSession(rights.sidecar, query=f"?token={token}") as session:
            session.subscribe("/s/a", "/s/b")
            rights.publish(["/s/a", "secret"], ["/s/b", "open"])
            before = session.path
            assert b"secret" in session.poll().body
            rights.change(rule(2, "/s/a", allow=False))
            again = session.poller.ask("GET", before).body
            assert b"secret" not in again
            assert b"open" in again
            session.frames.clear()
            assert session.next() == {"op": "revoked", "subjects": ["/s/a"], "reason": "rule 2 denies it"}


def test_frames_beyond_the_rate_wait_and_none_is_lost() -> None:
    with Sidecar(commands_per_second_max=20) as sidecar, StreamSession(sidecar) as session:
        pings = [{"op": "ping", "id": number} for number in range(60)]
        assert session.post(*pings[:40]).status == 204
        assert session.post(*pings[40:]).status == 204
        assert [session.answer("pong")["id"] for _ in pings] == list(range(60))
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["limited_commands"])


def test_what_is_posted_while_frames_wait() -> None:
    with Sidecar(commands_per_second_max=10) as sidecar, StreamSession(sidecar) as session, Caller(sidecar) as other:
        pings = [{"op": "ping", "id": number} for number in range(40)]
        path = f"/session/{session.id}?n=1"
        body = b"\n".join(json.dumps(ping).encode() for ping in pings)
        session.poster.connection.request("POST", path, body, {"Content-Type": "text/plain"})
        assert session.answer("pong")["id"] == 0
        session.said = 40
        session.poster, first = other, session.poster
        more = session.post({"op": "ping", "id": 40})
        assert (more.status, more.body["code"], more.headers["retry-after"]) == (503, "busy", "1")
        assert other.ask("POST", path, body, Content_Type="text/plain").status == 204  # the same again
        assert first.answer().status == 204
        first.connection.close()
        assert session.post({"op": "ping", "id": 40}).status == 204
        assert [session.answer("pong")["id"] for _ in pings] == list(range(1, 41))


@kinds
def test_who_does_not_read_is_closed_and_others_are_not(kind: Kind) -> None:
    filler = "x" * 4000
    with (
        Sidecar(outbox_bytes_max=200_000, unsent_bytes_max=16_384) as sidecar,
        WirePublisher(sidecar) as publisher,
        kind(sidecar, receive_bytes=4096) as session,
        WireClient(sidecar) as other,
        Control(sidecar.control) as control,
    ):
        session.subscribe("/slow/a")
        other.subscribe("/slow/a")
        sent = 0
        while not control.stats()["slow_closed"]:
            publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(sent, sent + 20)))
            sent += 20
            assert len(other.texts(20)) == 20
        assert session.closed() == (4001, "slow_consumer")
        until(lambda: session.post({"op": "ping", "id": 1}).status == 404)


@pytest.mark.slow
@kinds
def test_who_lags_may_be_conflated(kind: Kind) -> None:
    filler = "x" * 4000
    with (
        Sidecar(outbox_bytes_max=400_000, unsent_bytes_max=16_384) as sidecar,
        WirePublisher(sidecar) as publisher,
        kind(sidecar, receive_bytes=4096) as session,
        Control(sidecar.control) as control,
    ):
        session.subscribe("/slow/a", slow="conflate")
        sent = 0
        while not control.stats()["slow_conflated"]:
            publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(sent, sent + 10)))
            sent += 10
        publisher.publish(["/slow/a", f"{sent} {filler}"])
        last, names = "", []
        while "caught_up" not in names:
            frame = session.next()
            if isinstance(frame, list):
                last = frame[3].partition(" ")[0]
            else:
                names.append(frame["op"])
        assert names == ["lagging", "caught_up"]
        assert last == str(sent)
        assert not control.stats()["slow_closed"]


def test_a_stream_that_is_silent_lives() -> None:
    with Sidecar(ping_seconds=1) as sidecar, StreamSession(sidecar) as session, WirePublisher(sidecar) as publisher:
        session.subscribe(IBM)
        for _ in range(3):
            assert session.event() == ("", None)
        publisher.publish([IBM, "1"])
        assert session.texts(1) == ["1"]


@kinds
def test_who_says_nothing_is_closed(kind: Kind) -> None:
    with Sidecar(handshake_seconds=1) as sidecar, kind(sidecar) as session:
        assert session.closed() == (4003, "handshake_timeout")


@kinds
def test_operators_see_it_and_end_it(shared: Sidecar, kind: Kind) -> None:
    with kind(shared) as session, Control(shared.control) as control:
        session.ask("connect", "connected", client="reader/1")
        found = next(one for one in control.call("clients", {})["clients"] if one["program"] == "reader/1")
        transport = "stream" if kind is StreamSession else "poll"
        assert (found["transport"], found["over"], found["encoding"]) == (transport, "tcp", "json")
        assert control.call("client", {"connection": found["connection"]})["program"] == "reader/1"
        with pytest.raises(ControlRefused, match="answers pings"):
            control.call("ping", {"connection": found["connection"]})
        control.call("disconnect", {"connection": found["connection"], "reason": "enough"})
        assert session.closed() == (4506, "closed_by_operator")
        until(lambda: f"transport={transport} code=4506" in shared.log)


def test_the_audit_says_what_carries_the_frames(tmp_path: Path) -> None:
    with (
        Sidecar(audit="access", audit_folder=tmp_path) as sidecar,
        WireClient(sidecar),
        StreamSession(sidecar),
        PollSession(sidecar),
        EventReader(sidecar, IBM),
    ):
        written = Written(tmp_path)
        for transport in ("websocket", "stream", "poll", "events"):
            assert written.find(event="connected", transport=transport)


@kinds
def test_a_drain_sends_it_elsewhere(kind: Kind) -> None:
    with Sidecar() as sidecar, kind(sidecar) as session, Control(sidecar.control) as control:
        session.subscribe(IBM)
        control.call("drain", {"servers": OTHERS})
        notice = session.answer("notice")
        assert (notice["code"], notice["servers"]) == ("drain", OTHERS)
        assert session.closed()[0] == 4000


@pytest.mark.slow
@kinds
def test_a_restart_with_a_journal_loses_nothing(tmp_path: Path, kind: Kind) -> None:
    with Sidecar(journal="batch", data=tmp_path) as sidecar:
        with kind(sidecar) as session, WirePublisher(sidecar) as publisher:
            epoch = session.subscribe(IBM)[0]["epoch"]
            publisher.publish([IBM, "1"], [IBM, "2"])
            assert session.texts(2) == ["1", "2"]
            sidecar.kill()
        sidecar.start()
        with Caller(sidecar) as caller:
            told = caller.ask("POST", f"/session/{session.id}?n=2", b"{}", Content_Type="text/plain")
            assert told.body["code"] == "no_session"
        with kind(sidecar) as session, WirePublisher(sidecar) as publisher:
            publisher.publish([IBM, "3"])
            assert session.subscribe(IBM, since={IBM: [epoch, 1]})[0]["recovery"] == "recovered"
            assert session.texts(2) == ["2", "3"]


def test_many_that_are_not_read(shared: Sidecar) -> None:
    """A thousand sessions that nobody asks for anything cost their memory, and nobody else anything."""
    with Caller(shared) as caller, WireClient(shared) as client, Control(shared.control) as control:
        before = control.stats()["polling_clients"]
        opened = [json.loads(caller.ask("GET", "/session/poll").body)["session"] for _ in range(1000)]
        assert len(set(opened)) == 1000
        assert client.ask("ping", "pong")
        assert control.stats()["polling_clients"] == before + 1000
        for session in opened:
            assert caller.ask("DELETE", f"/session/{session}").status == 204
        until(lambda: control.stats()["polling_clients"] <= before)
