"""A user's own subjects, over every door: the user reads them without a rule, and nobody else does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.edge.calling import HttpPeer
from tests.support.edge.events import EventReader
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.edge.presence import PRESENCE, present
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.edge.spread import spread
from tests.support.edge.users import user
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.hook import Answering, enter, named
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until

OWN = "/user/alice/messages"
ALL = rule(1, "/**", "everyone", action="both")


@pytest.fixture(scope="module")
def rights() -> Iterator[Rules]:
    """Everybody may read and publish everything, as far as a rule about everything goes."""
    with ruled(ALL, rule(2, "/**", "anonymous"), listen=LISTEN, presence="/user/**") as found:
        yield found
        assert "Traceback" not in found.sidecar.log, found.sidecar.log


@pytest.mark.parametrize("form", ["json", "msgpack", "stream", "poll"])
def test_over_sockets_and_sessions(form: str) -> None:
    """By name, and by patterns that name /user/; wildcards in the first place bring none."""
    with ruled(ALL) as rights, rights.client(form=form) as alice, rights.client("bob", form=form) as bob:
        assert "sid" in alice.subscribe(OWN)[0]
        assert bob.subscribe(OWN)[0]["error"] == "denied"
        for client in (alice, bob):
            client.subscribe("/user/**", "/**", "/*/alice/messages")
        rights.publish([OWN, "for alice"], [f"{OWN}/more", "more"], ["/open/one", "for all"])
        assert sorted(alice.texts(3)) == ["for alice", "for all", "more"]
        assert bob.texts(1) == ["for all"]
        assert bob.quiet()
        answer = bob.ask("publish", "published", subject=OWN, content="x", closure="c")
        assert answer["status"] == "denied"


def test_over_events_and_rest(rights: Rules) -> None:
    """Events, snapshot, history and presence, each with a token of one's own, of another and with none."""
    rights.publish([OWN, "hello"])
    tokens = {name: mint(name, generation=rights.generation) for name in ("alice", "bob")}
    with EventReader(rights.sidecar, OWN, token=tokens["alice"]) as reader:
        assert reader.texts(1) == ["hello"]
    with EventReader(rights.sidecar, OWN, token=tokens["bob"]) as reader:
        assert reader.next().name == "denied"
    with HttpPeer(rights.sidecar) as peer:
        for path in ("/snapshot", "/api/history", "/api/presence"):
            statuses = []
            for token in (*tokens.values(), ""):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                statuses.append(peer.ask("GET", f"{path}?subject={OWN}", **headers).status)
            assert statuses == [200, 403, 403], path
        for pattern, expected in (("/user/**", [True, False]), ("/**", [False, False])):
            found = []
            for token in tokens.values():
                answer = peer.ask("GET", f"/api/history?subject={pattern}", Authorization=f"Bearer {token}")
                found.append(OWN in answer.body.decode())
            assert found == expected, pattern


def test_over_mqtt(rights: Rules) -> None:
    tokens = {name: mint(name, generation=rights.generation).encode() for name in ("alice", "bob")}
    with (
        mqtt(rights.sidecar, "a", user="alice", password=tokens["alice"]) as alice,
        mqtt(rights.sidecar, "b", user="bob", password=tokens["bob"]) as bob,
    ):
        assert alice.subscribe("/user/alice/mqtt") == [1]
        assert bob.subscribe("/user/alice/mqtt") == [0x80]
        bob.subscribe("#")
        bob.subscribe("/user/+/mqtt")
        rights.publish(["/user/alice/mqtt", "x"])
        assert alice.message().payload == b"x"
        assert bob.silent()


def test_who_is_there_is_for_the_user_alone(rights: Rules) -> None:
    with rights.client() as alice, rights.client("bob") as bob:
        alice.subscribe("/user/alice/there")
        until(lambda: present(alice, "/user/alice/there") == ({"alice": 1}, 0))
        assert bob.ask("presence", "error", subject="/user/alice/there")["code"] == "denied"
        assert bob.subscribe(f"{PRESENCE}/user/alice/there")[0]["error"] == "denied"
        assert "sid" in alice.subscribe(f"{PRESENCE}/user/alice/there")[0]


def test_a_publisher_needs_a_right_that_names_it() -> None:
    with ruled(ALL) as rights, WirePublisher(rights.sidecar, mint("feed", generation=1)) as feed:
        assert feed.publish([OWN, "x"])[0][0] == "denied"
        rights.change(rule(2, "/user/*/messages", "user:feed", action="publish"))
        assert isinstance(feed.publish([OWN, "x"])[0], int)


def test_it_ends_with_the_user_on_every_worker() -> None:
    """Deactivated: the connection is closed. Called otherwise: it is another's subject from now on."""
    with (
        ruled(ALL, workers=2) as rights,
        spread(rights.sidecar, 2, token=mint("alice", generation=rights.generation)) as clients,
        ExitStack() as stack,
    ):
        others = stack.enter_context(spread(rights.sidecar, 2, token=mint("carol", generation=rights.generation)))
        for client in clients.all:
            assert "sid" in client.subscribe(OWN)[0]
        for client in others.all:
            assert "sid" in client.subscribe("/user/carol/x")[0]
        rights.change(users=[user("alice", 2, active=False), user("carol", 2, user="caroline")])
        for client in clients.all:
            assert client.closed()[0] == 4502
        for client in others.all:
            assert client.answer("revoked")["subjects"] == ["/user/carol/x"]


def test_mode_jwt() -> None:
    """What the token permits by wildcards in the first place is not that; what it names is."""
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        for token, allowed in (
            (mint_jwt("alice"), True),
            (mint_jwt("bob", both=["/**", "/*/alice/messages", "/{username}/**"]), False),
            (mint_jwt("user", both=["/{username}/**"]), False),
            (mint_jwt("help", subscribe=["/user/*/messages"]), True),
        ):
            with WireClient(sidecar) as client:
                client.ask("connect", "connected", token=token)
                assert ("sid" in client.subscribe(OWN)[0]) == allowed
                client.subscribe(f"{PRESENCE}{OWN}")


def test_mode_custom() -> None:
    """The hook says who somebody is, and is not asked who reads what is a user's own."""
    with (
        Sidecar(mode="custom", hooks="connect,subscribe,publish") as sidecar,
        Answering(sidecar.control, named) as hook,
        enter(sidecar, "alice") as alice,
        enter(sidecar, "bob") as bob,
    ):
        assert "sid" in alice.subscribe(OWN)[0]
        assert bob.subscribe(OWN)[0]["error"] == "denied"
        bob.subscribe("/user/**")
        answer = bob.ask("publish", "published", subject=OWN, content="x", closure="c")  # the hook's affair
        assert answer["status"] == "ok"
        assert alice.texts(1) == ["x"]
        assert bob.quiet()
        assert [one["event"] for one in hook.asked if one["event"] == "subscribe"] == []
