"""Tokens that are taken back end on every worker, and on no other account do connections end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.support.edge.rules import Rules, rule, ruled
from tests.support.edge.spread import Spread, kill_worker, spread
from tests.support.edge.users import user
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.tokens import mint

WORKERS = 2

_NUMBERS = count()
"""Of tokens, sessions and subjects: what was revoked at a first try stays so at a second."""
EVERYTHING = rule(1, "/r/**", "everyone", action="both")


@pytest.fixture(scope="module")
def rules() -> Iterator[Rules]:
    """Everybody may everything below /r."""
    with ruled(EVERYTHING, workers=WORKERS, listen="clients+publishers://127.0.0.1:0") as running:
        yield running
        assert "Traceback" not in running.sidecar.log, running.sidecar.log


def clients_of(rules: Rules, **claims: Any) -> Any:
    """A client on each worker, all with one token."""
    return spread(rules.sidecar, WORKERS, token=mint("alice", generation=rules.generation, **claims))


def follow(clients: Spread, subject: str) -> None:
    """Each of them reads."""
    for client in clients.all:
        assert "sid" in client.subscribe(subject)[0]


def ends(clients: Spread, subject: str, code: int, reason: str) -> None:
    """All of them are told the reason and closed with the code."""
    for client in clients.all:
        assert client.answer("revoked") == {"op": "revoked", "subjects": [subject], "reason": reason}
        with pytest.raises(Ended) as ended:
            client.next()
        assert ended.value.code == code
        assert ended.value.reason.endswith(f": {reason}")


def refusal(rules: Rules, token: str) -> tuple[int, str]:
    """How a client with this token is closed."""
    with WireClient(rules.sidecar) as client:
        client.say("connect", token=token)
        return client.closed()


def test_a_single_token_is_revoked(rules: Rules) -> None:
    """By its id; the user's other tokens go on, and so does a session of the same name."""
    jti, subject = f"t{next(_NUMBERS)}", f"/r/{next(_NUMBERS)}"
    token = mint("alice", generation=rules.generation, jti=jti)
    with (
        clients_of(rules, jti=jti) as gone,
        clients_of(rules, jti=f"{jti}b") as other,
        clients_of(rules, session=jti) as session,
        WirePublisher(rules.sidecar, token) as publisher,
    ):
        for clients in (gone, other, session):
            follow(clients, subject)
        assert publisher.publish([subject, "1"]) == [1]
        for clients in (gone, other, session):
            assert all(client.texts(1) == ["1"] for client in clients.all)
        rules.change(sessions=[{"sid": f"jti:{jti}", "generation": rules.generation + 1}])
        ends(gone, subject, 4502, "the token was revoked")
        assert publisher.closed() == (4502, "revoked: the token was revoked"), "though it publishes nothing"
        assert refusal(rules, token) == (4502, "revoked")
        rules.publish([subject, "2"])
        for clients in (other, session):
            assert all(client.texts(1) == ["2"] for client in clients.all)


@pytest.mark.parametrize("whole", [False, True], ids=["difference", "whole set"])
def test_publishers_of_every_worker_end(rules: Rules, whole: bool) -> None:
    """Also those that advertise and are asked about again and again."""
    with rules.client("bob") as reader:
        for number in range(3):
            name = f"dave{number}{whole}"
            with ExitStack() as stack:
                there: dict[str, WirePublisher] = {}
                while len(there) < WORKERS:
                    one = stack.enter_context(WirePublisher(rules.sidecar, mint(name, generation=rules.generation)))
                    there.setdefault(one.welcome["server"], one)
                for publisher in there.values():
                    publisher.packet("advertise", 1, ["/r/new/*"])
                    assert publisher.next()[0] == "advertised"
                gone = user(name, rules.generation + 1, active=False)
                rules.full(EVERYTHING, users=(gone,)) if whole else rules.change(users=[gone])
                reader.subscribe(f"/r/new/{number}")
                for publisher in there.values():
                    assert publisher.closed() == (4502, "revoked: the user is not active")


def test_a_changed_password_ends_the_tokens_of_before(rules: Rules) -> None:
    """With a code after which the client comes again: with a new token it goes on where it was."""
    one, two = (f"s{next(_NUMBERS)}" for _ in range(2))
    old = mint("alice", generation=rules.generation, session=one)
    with clients_of(rules, session=one) as gone, clients_of(rules, uid="bob") as other:
        for clients in (gone, other):
            follow(clients, "/r/two")
        changed = rules.generation + 1
        # Django gives the session in which the password was changed another key: the old one ends with it.
        rules.change(
            users=[user("alice", changed, since=changed)], sessions=[{"sid": one, "generation": rules.generation + 1}]
        )
        ends(gone, "/r/two", 4007, "the password or the rights were changed: get a new token")
        assert refusal(rules, old) == (4007, "token_expired")
        assert all(client.quiet() for client in other.all)
    with clients_of(rules, session=two) as again:
        follow(again, "/r/two")
        rules.change(users=[user("alice", rules.generation + 1, since=changed, superuser=True)])
        assert all(client.quiet() for client in again.all), "the password is the one of then"
        assert refusal(rules, mint("alice", generation=changed - 1)) == (4007, "token_expired")
        rules.change(sessions=[{"sid": two, "generation": rules.generation + 1}])
        ends(again, "/r/two", 4502, "signed out")


def test_a_worker_that_comes_later_knows_what_was_revoked(rules: Rules) -> None:
    """From the first one, and that from the others when it is replaced itself."""
    rules.change(
        users=[user("carol", rules.generation + 1, since=rules.generation + 1)],
        sessions=[{"sid": "jti:t9", "generation": rules.generation + 1}],
    )
    old = mint("carol", generation=rules.generation - 1)
    for number in (1, 0):
        kill_worker(rules.sidecar, number, WORKERS)
        with clients_of(rules):  # one on each worker, so that each has the rights
            for _ in range(6):
                assert refusal(rules, mint("alice", generation=rules.generation, jti="t9")) == (4502, "revoked")
                assert refusal(rules, old) == (4007, "token_expired")
    rules.control.close()
