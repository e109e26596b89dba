"""Rights that change while data flows: a revoked subject stops at once, a granted one starts by itself."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.telemetry.counters import ENDS
from tests.support.edge.rules import milliseconds, rule, ruled
from tests.support.edge.users import user
from tests.support.edge.wire import Ended, WireClient, WirePublisher, packed
from tests.support.tokens import mint
from tests.support.waiting import until

ALL = rule(1, "/s/**")

over_all = pytest.mark.parametrize("form", ["json", "stream", "poll"])


@over_all
def test_a_denial_cuts_and_a_grant_resumes(form: str) -> None:
    with ruled(ALL) as rights, rights.client(form=form) as client, rights.client("bob") as bob:
        client.subscribe("/s/a", "/s/b")
        assert bob.subscribe("/s/a")[0]["error"] == "denied"
        rights.publish(["/s/a", "1"], ["/s/b", "2"])
        assert client.texts(2) == ["1", "2"]
        rights.change(rule(2, "/s/a", allow=False))
        assert client.next() == {"op": "revoked", "subjects": ["/s/a"], "reason": "rule 2 denies it"}
        rights.publish(["/s/a", "hidden"], ["/s/b", "3"])
        assert client.texts(1) == ["3"]
        assert client.quiet()
        rights.change(removed=[2])
        started = client.next()
        assert "id" not in started
        [result] = started["results"]
        assert (result["subject"], result["seq"]) == ("/s/a", 2)
        assert client.message()[3:] == ["hidden", None, {"kind": "snapshot"}]
        rights.publish(["/s/a", "4"])
        assert client.texts(1) == ["4"]
        assert bob.quiet()


@over_all
def test_nothing_revoked_comes_out_of_a_backed_up_queue(form: str) -> None:
    """What the kernel already took cannot be called back; what waits in the server's own queue is."""
    filler = "x" * 1000
    with ruled(ALL, unsent_bytes_max=16_384) as rights, rights.client(form=form, receive_bytes=4096) as client:
        client.subscribe("/s/a", "/s/b")
        number = 0

        def backed_up() -> bool:
            """Half a megabyte waits, far more than the kernel holds for this client."""
            nonlocal number
            rights.publish(*(["/s/ab"[:3] + "ab"[n % 2], f"{n} {filler}"] for n in range(number, number + 100)))
            number += 100
            return number >= 2000

        until(backed_up)
        rights.change(rule(2, "/s/a", allow=False))
        rights.publish(["/s/a", "after"], ["/s/b", "last"])
        got: list[tuple[str, str]] = []
        revoked_at = -1
        while not got or got[-1][1] != "last":
            value = client.next()
            if isinstance(value, list):
                got.append((client.subjects[value[0]], value[3].partition(" ")[0]))
            else:
                assert value == {"op": "revoked", "subjects": ["/s/a"], "reason": "rule 2 denies it"}
                revoked_at = len(got)
        of_a = [content for subject, content in got if subject == "/s/a"]
        of_b = [content for subject, content in got if subject == "/s/b"]
        assert of_b == [str(n) for n in range(1, number, 2)] + ["last"], "the other subject lost nothing"
        assert of_a == [str(n) for n in range(0, 2 * len(of_a), 2)], "what had gone out before, in order"
        assert len(of_a) < number // 4, f"{len(of_a)} of {number // 2} came after all"
        assert all(subject == "/s/b" for subject, _ in got[revoked_at:])


def test_before_the_rights_have_come_nothing_is_denied() -> None:
    """Clients and publishers are told to retry, and a subscription starts by itself (protocol.md 4.2)."""
    with ruled() as rights, rights.client() as client, WireClient(rights.sidecar) as anonymous:
        rights.publish(["/s/a", "early"])
        results = client.subscribe("/s/a", "/t/x")
        assert [(one["error"], one["retry_ms"]) for one in results] == [("not_ready", 500)] * 2
        assert anonymous.subscribe("/s/a")[0]["error"] == "not_ready"
        answer = client.ask("publish", "published", subject="/s/a", content="x", closure="c")
        assert answer["status"] == "not_ready"
        with WirePublisher(rights.sidecar, hello=False) as publisher:
            publisher.packet("hello", {"token": mint("alice")})
            assert publisher.closed() == (4005, "not_ready: the rights have not arrived from Django yet; retry")
        rights.full(ALL)
        started = client.next()
        assert [(one["subject"], one.get("error")) for one in started["results"]] == [
            ("/s/a", None),
            ("/t/x", "denied"),
        ]
        assert client.texts(1) == ["early"]
        assert anonymous.next()["results"][0]["error"] == "denied"


def test_unsubscribe_forgets_what_waits() -> None:
    with ruled(rule(1, "/other/x")) as rights, rights.client() as client:
        assert client.subscribe("/s/a")[0]["error"] == "denied"
        assert client.ask("unsubscribe", "unsubscribed", subjects=["/s/a"])["subjects"] == ["/s/a"]
        rights.change(ALL)
        rights.publish(["/s/a", "1"])
        assert client.quiet()


def test_a_subscription_that_waits_keeps_what_was_asked() -> None:
    """Its history, its position and its interval."""
    with ruled(rule(1, "/other/x")) as rights, rights.client() as one, rights.client() as two, rights.client() as three:
        epoch = rights.control.hello()["epoch"]
        rights.publish(*(["/s/a", str(n)] for n in range(1, 6)))
        one.subscribe("/s/a", history=2)
        two.subscribe("/s/a", since={"/s/a": [epoch, 2]})
        three.subscribe("/s/a", conflation=500)
        rights.change(ALL)
        assert one.next()["results"][0]["messages"] == 2
        assert one.texts(2) == ["4", "5"]
        assert two.next()["results"][0]["recovery"] == "recovered"
        assert two.texts(3) == ["3", "4", "5"]
        assert three.next()["results"][0]["conflation"] == 500


def test_a_user_who_is_deactivated() -> None:
    with ruled(ALL) as rights, rights.client() as client, rights.client("bob") as bob, rights.publisher() as root:
        client.subscribe("/s/a")
        bob.subscribe("/s/a")
        old = mint("alice", generation=rights.generation)
        rights.change(users=[user("alice", rights.generation + 1, active=False)])
        assert client.closed() == (4502, "revoked")
        with WireClient(rights.sidecar, path=f"/ws?token={old}") as again:
            assert again.closed() == (4502, "revoked")
        assert bob.quiet()
        with Control(rights.sidecar.control) as control:
            figures = control.stats()
        assert figures["connections_refused"] == 1, "with that token nobody was connected"
        assert figures["disconnects"] == sum(figures[f"disconnects_{name}"] for name in ENDS) == 1
        rights.change(users=[user("root", rights.generation + 1, active=False)])
        root.packet("batch", 1, [["/s/a", "x"]])
        assert root.closed() == (4502, "revoked: the user is not active")


def test_a_revoked_client_gets_nothing_of_what_waits_for_it() -> None:
    filler = "x" * 1000
    with ruled(ALL, unsent_bytes_max=16_384) as rights, rights.client(receive_bytes=4096) as client:
        client.subscribe("/s/a")
        for n in range(0, 2000, 100):
            rights.publish(*(["/s/a", f"{m} {filler}"] for m in range(n, n + 100)))
        rights.change(users=[user("alice", rights.generation + 1, active=False)])
        until(lambda: "code=4502" in rights.sidecar.log)
        count = 0
        while isinstance(value := client.next(), list):
            count += 1
        assert value["op"] == "revoked"
        assert count < 1000
        assert client.closed() == (4502, "revoked")


def test_publishing_follows_the_rights_at_once() -> None:
    publish = rule(1, "/s/**", action="publish")
    with ruled(publish) as rights:
        token = mint("alice", generation=rights.generation)
        with WirePublisher(rights.sidecar, token) as publisher, rights.client() as client:
            assert isinstance(publisher.publish(["/s/a", "1"])[0], int)
            say = {"subject": "/s/a", "content": "2", "closure": "c"}
            assert client.ask("publish", "published", **say)["status"] == "ok"
            assert client.subscribe("/s/a")[0]["error"] == "denied"
            rights.change(rule(2, "/s/a", action="both", allow=False))
            assert publisher.publish(["/s/a", "3"], ["/s/b", "4"]) == [["denied", "rule 2 denies it"], 1]
            assert client.ask("publish", "published", **say)["status"] == "denied"


# Tokens


def test_a_token_is_renewed_and_ends() -> None:
    """It is told behind the answer by which the client has said something for the first time."""
    lasts = count(3)
    with ruled(ALL) as rights, ExitStack() as stack:

        def renew() -> tuple[WireClient, WireClient, dict[str, Any]] | None:
            """With a token that has not ended before it is renewed: a busy machine needs a longer one."""
            hours = next(lasts) / 3600
            try:
                client, other = (stack.enter_context(rights.client(hours=hours)) for _ in range(2))
                told = client.next()
                assert (told["op"], told["expires"] < milliseconds(60)) == ("expiring", True)
                client.subscribe("/s/a")
                return client, other, client.ask("token", "renewed", token=mint("alice", generation=rights.generation))
            except Ended:
                return None

        client, other, renewed = until(renew)  # type: ignore[misc]
        assert (renewed["user"], renewed["expires"] > milliseconds(3600)) == ("alice", True)
        assert other.closed() == (4007, "token_expired")
        rights.publish(["/s/a", "goes on"])
        assert client.texts(1) == ["goes on"]


def test_a_renewal_that_is_refused_changes_nothing() -> None:
    with ruled(ALL) as rights, rights.client() as client:
        client.subscribe("/s/a")
        for token in ("hello", mint("bob"), mint("alice", hours=-1), ""):
            error = client.ask("token", "error", token=token)
            assert error["code"] == "bad_token", token
        rights.publish(["/s/a", "1"])
        assert client.texts(1) == ["1"]


def test_anonymous_becomes_somebody() -> None:
    with ruled(ALL, rule(2, "/open/*", "anonymous")) as rights, rights.client("") as client:
        results = client.subscribe("/s/a", "/open/x")
        assert [one.get("error") for one in results] == ["denied", None]
        renewed = client.ask("token", "renewed", token=mint("alice", generation=rights.generation))
        assert renewed["user"] == "alice"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("slow", ["close", "conflate"])
def test_a_server_that_stood_still_past_the_end(slow: str) -> None:
    """Nothing is sent but the close: of what came while it stood nothing goes to whose token has ended."""
    with ruled(ALL) as rights, ExitStack() as stack:
        ends, lives = (stack.enter_context(rights.client(hours=seconds / 3600)) for seconds in (64, 180))
        for client in (ends, lives):
            client.subscribe("/s/a", slow=slow)
            assert client.quiet(), "over a minute is left"
        publisher = stack.enter_context(rights.publisher())
        os.kill(rights.sidecar.pid, signal.SIGSTOP)
        try:
            began = time.time()
            publisher.send(b"".join(packed("batch", number, [["/s/a", str(number)]]) for number in range(1, 50)))
            until(lambda: time.time() > began + 65, 90)
        finally:
            os.kill(rights.sidecar.pid, signal.SIGCONT)
        with pytest.raises(Ended, match="token_expired"):
            ends.next()
        assert ends.rest() == b"", "nothing behind the close"
        assert lives.texts(49) == [str(number) for number in range(1, 50)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_server_that_stood_still_past_the_notice() -> None:
    """The notice comes as soon as it runs, ahead of what came meanwhile, and the end at its time."""
    with ruled(ALL) as rights, rights.client(hours=80 / 3600) as client, rights.publisher() as publisher:
        client.subscribe("/s/a")
        os.kill(rights.sidecar.pid, signal.SIGSTOP)
        try:
            began = time.time()
            publisher.send(packed("batch", 1, [["/s/a", "1"]]))
            until(lambda: time.time() > began + 30, 60)
        finally:
            os.kill(rights.sidecar.pid, signal.SIGCONT)
        frames: list[Any] = [client.next(), client.next()]
        assert [frame["op"] if isinstance(frame, dict) else frame[3] for frame in frames] == ["expiring", "1"]
        until(lambda: time.time() > began + 79, 90)
        assert client.closed() == (4007, "token_expired")
