"""Requests that a responder on another node answers, through the end of nodes and of Redis."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client import (
    Disconnected,
    NoResponders,
    Reply,
    Request,
    RequestTimeout,
    ResponderError,
    blocking,
    connect,
)
from fastpath.client.control.client import Control
from realtime import request as request_from_django
from tests.support.edge.calling import HttpPeer
from tests.support.edge.figures import Change
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient
from tests.support.proxy import Proxy
from tests.support.redis import RedisServer, Topology
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, auntil, until

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def node(redis: RedisServer) -> Sidecar:
    """A node in which everybody may do everything."""
    return Sidecar(engine=redis.url, drain_seconds=1)


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two nodes on one Redis, for tests that do them no harm."""
    with RedisServer() as redis, node(redis) as one, node(redis) as other:
        until(lambda: figure(one, "request_nodes") == figure(other, "request_nodes") == 1)
        yield one, other
        assert "Traceback" not in one.log + other.log, one.log + other.log


class Clients(ExitStack):
    """Clients of nodes, which are closed in the end."""

    def __call__(self, sidecar: Sidecar, *patterns: str) -> WireClient:
        """A client that responds to these patterns."""
        client = self.enter_context(WireClient(sidecar))
        client.ask("ping", "pong")  # what a client is told at its begin is read
        if patterns:
            client.ask("respond", "responding", patterns=list(patterns))
        return client


@pytest.fixture
def client() -> Iterator[Clients]:
    """Makes clients."""
    with Clients() as clients:
        yield clients


def figure(sidecar: Sidecar, name: str) -> float:
    with Control(sidecar.control) as control:
        return float(control.stats()[name])


def outcome(asking: WireClient, subject: str, **keys: Any) -> dict[str, Any]:
    """What a request ends with."""
    return dict(asking.ask("request", "response", subject=subject, content="x", **keys))


def open_request(asking: WireClient, responder: WireClient, subject: str) -> tuple[int, str]:
    """Ask until this responder, perhaps of another node, is asked: the request's number, and where replies to it go."""

    def asked() -> tuple[int, str] | None:
        number = asking.say("request", subject=subject, content="x", timeout=60_000)
        until(lambda: not (asking.silent() and responder.silent()))
        if not responder.silent():
            return number, str(responder.answer("asked")["to"])
        assert asking.answer("response", number)["error"] in ("no_responders", "unavailable")
        return None

    return until(asked)  # type: ignore[return-value]


def replied(asking: WireClient, responder: WireClient, subject: str, content: str) -> str:
    """The reply of that responder, with this content, to a request."""
    number, to = open_request(asking, responder, subject)
    assert responder.ask("reply", "replied", to=to, content=content)["status"] == "ok"
    return str(asking.answer("response", number)["content"])


async def test_clients_ask_over_nodes_and_get_all_replies_errors_and_ends(two: tuple[Sidecar, Sidecar]) -> None:
    one, other = two
    async with connect(one.client_url) as asking, connect(other.client_url) as answering:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def answer(request: Request) -> Reply | str:
            match request.content:
                case "three":
                    request.reply("1", {"n": "1"})
                    request.reply(b"\xff")
                case "error":
                    request.reply("before")
                    raise ResponderError("no_such_stock", "there is no ZZZ")
                case "slow":
                    begun.set()
                    try:
                        await asyncio.sleep(60)
                    finally:
                        ended.set()
            return Reply(request.content, request.fields)

        async def known() -> bool:
            try:
                return bool(await asking.request("/py/x", "", timeout=30))
            except NoResponders:
                return False

        async with await answering.respond("/py/*", answer):
            await auntil(known)
            assert await asking.request("/py/x", b"\x80", fields={"f": b"\x81"}) == Reply(b"\x80", {"f": b"\x81"})
            replies = [Reply("1", {"n": "1"}), Reply(b"\xff"), Reply("three")]
            assert await asking.request("/py/x", "three", replies=9) == replies
            assert await asking.request("/py/x", "three", replies=2) == replies[:2]
            with pytest.raises(ResponderError, match="no_such_stock") as error:
                await asking.request("/py/x", "error", replies=2)
            assert error.value.replies == [Reply("before")]
            many = await asyncio.gather(*(asking.request("/py/x", str(n)) for n in range(500)))
            assert [reply.content for reply in many] == [str(n) for n in range(500)]
            while not begun.is_set():  # where its time was over before it was read nothing has begun
                with pytest.raises(RequestTimeout):
                    await asking.request("/py/x", "slow", timeout=0.3)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await ended.wait()

        async def unknown() -> bool:
            return not await known()

        await auntil(unknown)


async def test_a_requester_that_reconnects_gets_a_clear_error_once_and_the_responder_is_told(
    two: tuple[Sidecar, Sidecar],
) -> None:
    one, other = two
    with Proxy(one.client_url) as proxy, WireClient(other) as answering, WireClient(one) as bystander:
        answering.ask("respond", "responding", patterns=["/again/*"])
        replied(bystander, answering, "/again/x", "known")
        async with connect(f"ws://{proxy.address}/ws", quick_seconds=0.1) as asking:
            waiting = asyncio.create_task(asking.request("/again/x", "slow", timeout=60))
            to = (await asyncio.to_thread(answering.answer, "asked"))["to"]
            proxy.cut()
            with pytest.raises(Disconnected):
                await waiting
            assert (await asyncio.to_thread(answering.answer, "over"))["to"] == to
            assert answering.ask("reply", "replied", to=to, content="late")["status"] == "gone"
            again = asyncio.create_task(asking.request("/again/x", "new", timeout=60))
            asked = await asyncio.to_thread(answering.answer, "asked")
            assert asked["content"] == "new", "what was asked before is not asked again"
            answering.say("reply", to=asked["to"], content="answered")
            assert (await again).content == "answered"


def test_nobody_answers_is_said_at_once_on_both(two: tuple[Sidecar, Sidecar], client: Clients) -> None:
    for asking in map(client, two):
        answer = outcome(asking, "/nobody/x", timeout=60_000)
        assert (answer["error"], answer["own"]) == ("no_responders", True)


def test_callers_of_http_and_django_ask_over_nodes(
    two: tuple[Sidecar, Sidecar], client: Clients, settings: Any
) -> None:
    one, other = two
    asking = client(one)
    with blocking.connect(other.client_url) as answering, answering.respond("/doors/*", lambda one: f"{one.content}!"):
        until(lambda: outcome(asking, "/doors/x").get("content") == "x!")
        with HttpPeer(one) as peer:
            answer = peer.ask("POST", "/api/request", json.dumps({"subject": "/doors/x", "content": "http"}).encode())
            assert (answer.status, answer.json) == (200, {"replies": [{"content": "http!", "fields": {}}]})
        settings.REALTIME = settings.REALTIME | {"CONTROL": one.control}
        assert request_from_django("/doors/x", "django").content == "django!"


def test_responders_of_the_own_node_come_first_and_others_are_asked_when_none_of_them_takes_it(
    two: tuple[Sidecar, Sidecar], client: Clients
) -> None:
    one, other = two
    asking, far = client(one), client(other, "/near/*")
    assert replied(asking, far, "/near/x", "far") == "far"
    near = client(one, "/near/x")
    for _ in range(3):
        assert replied(asking, near, "/near/x", "near") == "near"
    for _ in range(999):  # it owes as much as one may
        asking.say("request", subject="/near/x", content="", timeout=60_000)
        near.answer("asked")
    owing = client(one)
    owing.say("request", subject="/near/x", content="", timeout=60_000)
    near.answer("asked")
    assert replied(owing, far, "/near/x", "far") == "far"
    far.ask("respond", "responding", patterns=[])
    until(lambda: outcome(owing, "/near/x", timeout=60_000).get("error") == "busy")


def test_a_late_reply_and_one_that_was_abandoned_are_dropped_and_figures_count(
    two: tuple[Sidecar, Sidecar], client: Clients
) -> None:
    one, other = two
    asking, responder = client(one), client(other, "/late/*")
    with Control(one.control) as control, Control(other.control) as other_control:
        here, there = Change(control), Change(other_control)
        replied(asking, responder, "/late/x", "known")
        number = asking.say("request", subject="/late/x", content="", timeout=200)
        to = responder.answer("asked")["to"]
        assert asking.answer("response", number)["error"] == "timeout"
        assert responder.answer("over")["to"] == to
        assert responder.ask("reply", "replied", to=to, content="late")["status"] == "gone"
        leaving = client(one)
        leaving.say("request", subject="/late/x", content="", timeout=60_000)
        to = responder.answer("asked")["to"]
        leaving.sock.close()
        assert responder.answer("over")["to"] == to
        assert asking.quiet()
        assert here.of("requests_to_nodes", "requests_from_nodes") == [3, 0]
        assert there.of("requests_from_nodes", "replies", "replies_dropped") == [3, 1, 1]


def test_a_responder_that_ends_is_told_over_nodes(two: tuple[Sidecar, Sidecar], client: Clients) -> None:
    one, other = two
    asking, responder = client(one), client(other, "/ends/x")
    number, _ = open_request(asking, responder, "/ends/x")
    responder.sock.close()
    assert asking.answer("response", number)["error"] == "responder_gone"
    until(lambda: outcome(asking, "/ends/x")["error"] == "no_responders")


def test_rights_are_those_of_who_asks_and_of_who_answers_there(client: Clients) -> None:
    rules = [rule(1, "user:ann", "/q/**", action="publish"), rule(2, "user:bob", "/q/*", action="subscribe")]
    with RedisServer() as redis, ExitStack() as stack:
        settings = {"engine": redis.url, "mode": "rules", "token_secret": SECRET, "drain_seconds": 1}
        one, other = (stack.enter_context(Sidecar(**settings)) for _ in range(2))
        for each in (one, other):
            load_rights(each.control, *rules)
        ann, bob = client(one), client(other)
        ann.ask("connect", "connected", token=mint("ann"))
        bob.ask("connect", "connected", token=mint("bob"))
        bob.ask("respond", "responding", patterns=["/**"])
        assert replied(ann, bob, "/q/a", "known") == "known"
        number = ann.say("request", subject="/q/a", content="x", timeout=60_000)
        asked = bob.answer("asked")
        assert asked["user"] == "ann"
        bob.say("reply", to=asked["to"], content="answered")
        assert ann.answer("response", number)["content"] == "answered"
        assert outcome(ann, "/q/a/b")["error"] == "no_responders", "bob may not read it"
        assert outcome(bob, "/q/a")["error"] == "denied"


def test_every_worker_of_one_node_reaches_every_worker_of_another(client: Clients) -> None:
    with RedisServer() as redis, ExitStack() as stack:
        one, other = (stack.enter_context(Sidecar(engine=redis.url, drain_seconds=1, workers=2)) for _ in range(2))
        asking, answering = (stack.enter_context(spread(node, 2)) for node in (one, other))
        for responder in answering.all:
            responder.ask("respond", "responding", patterns=["/workers/x"])
            for each in asking.all:
                assert replied(each, responder, "/workers/x", "reply") == "reply"
            responder.ask("respond", "responding", patterns=[])
            for each in asking.all:
                until(lambda each=each: outcome(each, "/workers/x")["error"] == "no_responders")
        first, second = answering.first, answering.others[0]
        for responder in (first, second):
            responder.ask("respond", "responding", patterns=["/workers/y"])
            leaving = asking.others[0] if responder is second else asking.first
            _, to = open_request(leaving, responder, "/workers/y")
            leaving.sock.close()
            assert responder.answer("over")["to"] == to
            responder.ask("respond", "responding", patterns=[])


def test_a_node_that_is_killed_ends_what_is_under_way_in_both_directions(client: Clients) -> None:
    with RedisServer() as redis, node(redis) as one, node(redis) as other, node(redis) as third:
        asking, answering = client(one), client(one, "/here/x")
        far, beside = client(other, "/killed/x"), client(third)
        number, _ = open_request(asking, far, "/killed/x")
        _, to = open_request(far, answering, "/here/x")
        asking.sock.settimeout(2 * PATIENCE_SECONDS)
        answering.sock.settimeout(2 * PATIENCE_SECONDS)
        other.kill()
        until(lambda: outcome(beside, "/killed/x", timeout=60_000)["error"] in ("unavailable", "no_responders"))
        assert asking.answer("response", number)["error"] == "responder_gone"
        assert answering.answer("over")["to"] == to
        assert answering.ask("reply", "replied", to=to, content="")["status"] == "gone"
        assert outcome(asking, "/killed/x")["error"] == "no_responders"
        other.start()
        back = client(other, "/killed/x")
        assert replied(asking, back, "/killed/x", "back") == "back"


def test_when_the_first_worker_of_a_node_dies_what_is_under_way_ends_and_responders_stay_known(client: Clients) -> None:
    with RedisServer() as redis, node(redis) as one, ExitStack() as stack:
        other = stack.enter_context(Sidecar(engine=redis.url, drain_seconds=1, workers=2))
        asking, answering = client(one), client(one, "/here/x")
        (far,) = stack.enter_context(spread(other, 2)).others
        far.ask("respond", "responding", patterns=["/first/x"])
        number, to = open_request(asking, far, "/first/x")
        far_number, near_to = open_request(far, answering, "/here/x")
        killing = threading.Thread(target=kill_worker, args=(other, 0, 2))
        killing.start()
        bystander = client(one)
        seen = []
        while killing.is_alive():
            seen.append(outcome(bystander, "/first/x", timeout=300)["error"])
        killing.join()
        assert asking.answer("response", number)["error"] == "responder_gone"
        assert far.answer("response", far_number)["error"] == "responder_gone"
        assert answering.answer("over")["to"] == near_to
        assert far.ask("reply", "replied", to=to, content="")["status"] == "gone"
        assert replied(asking, far, "/first/x", "still there") == "still there"
        assert "no_responders" not in seen, "the other first worker"


def test_a_node_that_ends_says_so(client: Clients) -> None:
    with RedisServer() as redis, node(redis) as one, node(redis) as other:
        asking, answering = client(one), client(one, "/here/x")
        far = client(other, "/ended/x")
        number, _ = open_request(asking, far, "/ended/x")
        _, to = open_request(far, answering, "/here/x")
        other.stop()
        assert asking.answer("response", number)["error"] == "responder_gone"
        assert answering.answer("over")["to"] == to
        assert outcome(asking, "/ended/x")["error"] == "no_responders", "at once"
        assert figure(one, "request_nodes") == 0


@pytest.mark.parametrize("away", ["kill", "freeze"])
def test_while_redis_is_away_nobody_is_said_to_be_missing_and_all_is_as_before_when_it_is_back(
    client: Clients, away: str
) -> None:
    with RedisServer() as redis, node(redis) as one, node(redis) as other:
        asking, near = client(one), client(one, "/near/x")
        far = client(other, "/far/x")
        number, to = open_request(asking, far, "/far/x")
        getattr(redis, away)()
        asking.sock.settimeout(2 * PATIENCE_SECONDS)
        far.sock.settimeout(2 * PATIENCE_SECONDS)
        assert asking.answer("response", number)["error"] == "responder_gone"
        assert far.answer("over")["to"] == to
        assert outcome(asking, "/far/x", timeout=60_000)["error"] == "unavailable"
        assert outcome(asking, "/nobody/x", timeout=60_000)["error"] == "unavailable"
        assert replied(asking, near, "/near/x", "near") == "near", "responders of the own node are asked"
        redis.start() if away == "kill" else redis.thaw()
        seen: list[str] = []

        def ended() -> bool:
            seen.append(outcome(asking, "/nobody/x", timeout=60_000)["error"])
            return seen[-1] == "no_responders"

        until(ended)
        assert set(seen) <= {"unavailable", "no_responders"}
        number = asking.say("request", subject="/far/x", content="", timeout=60_000)
        to = far.answer("asked")["to"]
        far.say("reply", to=to, content="back")
        assert asking.answer("response", number)["content"] == "back", "known before it was said that nobody answers"


def test_a_node_that_comes_later_knows_who_answers_before_it_says_that_nobody_does(client: Clients) -> None:
    with RedisServer() as redis, node(redis) as one:
        patterns = [f"/many/{n}" for n in range(90)]
        responders = [client(one, *(f"{pattern}/{n}" for pattern in patterns)) for n in range(10)]
        with node(redis) as late:
            asking = client(late)
            number = asking.say("request", subject="/many/0/9", content="", timeout=60_000)
            to = responders[9].answer("asked")["to"]
            responders[9].say("reply", to=to, content="here")
            assert asking.answer("response", number)["content"] == "here"


def test_over_a_failover_of_redis() -> None:
    with Topology(quick=True) as topology, ExitStack() as stack:
        one, other = (stack.enter_context(Sidecar(engine=topology.url, drain_seconds=1)) for _ in range(2))
        asking = stack.enter_context(WireClient(one))
        far = stack.enter_context(blocking.connect(other.client_url))
        far.respond("/failover/x", lambda request: "after")
        until(lambda: outcome(asking, "/failover/x", timeout=60_000).get("content") == "after")
        old = topology.primary
        old.kill()
        topology.wait_new_primary(old)

        def answered() -> bool:
            answer = outcome(asking, "/failover/x", timeout=60_000)
            assert answer.get("error", "unavailable") in ("unavailable", "responder_gone"), answer
            return answer.get("content") == "after"

        until(answered, 30)
