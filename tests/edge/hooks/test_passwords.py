"""Clients of MQTT with a user's name and password, of which Django is asked; played here by a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.mqtt.packets import Connack, ConnectPacket, Disconnect, Pingreq, Pingresp
from fastpath.core.mqtt.reasons import Reason
from fastpath.edge.hooks.passwords import network_of
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.hook import CheckingPasswords, Question, Reply
from tests.support.tokens import mint
from tests.support.waiting import until

LEVELS = pytest.mark.parametrize("level", [4, 5])


@pytest.fixture
def rules() -> Iterator[Rules]:
    """Alice may read stocks."""
    with ruled(rule(1, "/stocks/**"), listen=LISTEN, hook_seconds=2) as running:
        yield running
        assert "Traceback" not in running.sidecar.log, running.sidecar.log
        assert "demo" not in running.sidecar.log


def demo(question: Question, generation: int = 1) -> Reply:
    """Everybody's password is "demo"."""
    right = question["password"] == "demo"
    return {"token": mint(question["user"], generation=generation) if right else ""}


def comes(rules: Rules, level: int = 5, user: str = "alice", password: bytes = b"demo", **more: Any) -> Connack:
    """What a client is answered that comes and goes."""
    with MqttPeer(rules.sidecar.ready["mqtt"][0], level) as one:
        return one.connect("a", user=user, password=password, **more)


@LEVELS
def test_a_user_comes_with_name_and_password(rules: Rules, level: int) -> None:
    """What it sends behind CONNECT waits for the answer; a token is a token as before, and nobody is asked."""
    with CheckingPasswords(rules.sidecar.control, demo) as django:
        with mqtt(rules.sidecar, "a", level, user="alice", password=b"demo") as one, rules.publisher() as publisher:
            assert one.subscribe("/stocks/us/IBM", "/orders/1") == [1, 0x80]
            publisher.publish(["/stocks/us/IBM", "1"])
            assert one.message().payload == b"1"
            with Control(rules.sidecar.control) as control:
                assert control.clients()["clients"][0]["user"] == "alice"
        assert django.asked == [{"ask": 1, "user": "alice", "password": "demo", "address": "127.0.0.1"}]
        assert comes(rules, level, password=b"wrong").code == (Reason.BAD_USER_OR_PASSWORD if level == 5 else 4)
        assert comes(rules, level, user="x", password=mint("alice").encode()).code == 0
        with MqttPeer(rules.sidecar.ready["mqtt"][0], level) as one:
            django.rule = lambda question: None
            one.send(ConnectPacket(level=level, client_id="b", user="bob", password=b"demo"))
            one.send(Pingreq())
            question = until(lambda: django.asked[2:])[0]
            django.answer(question, demo(question))
            assert isinstance(one.receive(Connack), Connack)
            one.receive(Pingresp)
        assert len(django.asked) == 3


def test_what_was_right_a_moment_ago_is_not_asked_again_while_it_counts(rules: Rules) -> None:
    """Whoever comes while a pair is being checked waits with it; a changed password or a user who may not come any
    more ends what is known, as it ends the connection, within a second."""
    with CheckingPasswords(rules.sidecar.control, lambda question: None) as django, ExitStack() as stack:
        crowd = [stack.enter_context(MqttPeer(rules.sidecar.ready["mqtt"][0])) for _ in range(3)]
        for number, one in enumerate(crowd):
            one.send(ConnectPacket(level=5, client_id=f"c{number}", user="alice", password=b"demo"))
        with Control(rules.sidecar.control) as control:
            until(lambda: control.stats()["passwords_open"] == 3)
        question = until(lambda: django.asked)[0]
        django.rule = demo
        django.answer(question, demo(question))
        assert [one.receive(Connack).code for one in crowd] == [0, 0, 0]
        assert comes(rules).code == 0
        assert len(django.asked) == 1
        django.rule = lambda question: {"token": ""}
        changed = {"uid": "alice", "user": "alice", "active": True, "superuser": False, "groups": []}
        rules.change(users=[changed | {"generation": rules.generation + 1, "since": rules.generation + 1}])
        for one in crowd:
            assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.NOT_AUTHORIZED]
        assert comes(rules).code == Reason.BAD_USER_OR_PASSWORD
        assert len(django.asked) == 2


def test_who_guesses_is_not_listened_to_any_more(rules: Rules) -> None:
    """Of this user from this address; whose password is known to be right comes in, and so does another user."""
    with CheckingPasswords(rules.sidecar.control, demo) as django, Control(rules.sidecar.control) as control:
        assert comes(rules).code == 0
        for number in range(10):
            assert comes(rules, password=b"wrong %d" % number).code == Reason.BAD_USER_OR_PASSWORD
        asked = len(django.asked)
        refused = comes(rules, password=b"wrong again")
        assert refused.code == Reason.SERVER_BUSY
        assert refused.properties["reason_string"] == "too many wrong passwords: come again later"
        assert comes(rules, 4, password=b"wrong again").code == 3
        assert len(django.asked) == asked == 11
        assert comes(rules).code == 0
        for _ in range(12):
            assert comes(rules, user="bob").code == 0
        figures = control.stats()
        names = ("passwords_asked", "passwords_wrong", "passwords_limited")
        assert [figures[name] for name in names] == [12, 10, 2]


@LEVELS
def test_while_django_is_away_or_does_not_answer_a_client_is_to_come_again(rules: Rules, level: int) -> None:
    """Nothing of that counts as a guess."""
    away = Reason.SERVER_UNAVAILABLE if level == 5 else 3
    for _ in range(11):
        assert comes(rules, level).code == away
    with CheckingPasswords(rules.sidecar.control, lambda question: {"failed": "no database"}) as django:
        for _ in range(11):
            assert comes(rules, level).code == away
        django.rule = lambda question: None
        assert comes(rules, level, keep_alive=1).code == away
        django.rule = demo
        assert comes(rules, level).code == 0


def test_who_waits_longer_for_the_answer_than_for_a_handshake_is_not_blamed_for_silence() -> None:
    with (
        ruled(rule(1, "/stocks/**"), listen=LISTEN, hook_seconds=9, handshake_seconds=1) as waiting,
        CheckingPasswords(waiting.sidecar.control, lambda question: None),
    ):
        answer = comes(waiting)
        assert answer.code == Reason.SERVER_UNAVAILABLE
        assert answer.properties["reason_string"] == "its password cannot be checked at this moment"
        assert "no CONNECT in time" not in waiting.sidecar.log


def test_all_addresses_of_a_network_of_ipv6_are_one() -> None:
    given = ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8:1:2:3::4", "2001:db8:1:2:ffff::", "2001:db8:1:3::4", "")
    assert [network_of(one) for one in given] == [
        "10.0.0.1",
        "10.0.0.1",
        "2001:db8:1:2::/64",
        "2001:db8:1:2::/64",
        "2001:db8:1:3::/64",
        "",
    ]


def test_what_is_far_too_long_is_wrong_unasked(rules: Rules) -> None:
    with CheckingPasswords(rules.sidecar.control, demo) as django:
        assert comes(rules, user="u" * 257).code == Reason.BAD_USER_OR_PASSWORD
        assert comes(rules, password=b"p" * 4097).code == Reason.BAD_USER_OR_PASSWORD
        assert not django.asked


def test_the_other_workers_ask_by_way_of_the_first() -> None:
    with (
        ruled(rule(1, "/stocks/**"), listen=LISTEN, workers=2) as rules,
        CheckingPasswords(rules.sidecar.control, demo) as django,
        Control(rules.sidecar.control) as control,
        ExitStack() as stack,
    ):
        for number in range(40):
            one = stack.enter_context(MqttPeer(rules.sidecar.ready["clients"][0], websocket=True))
            assert one.connect(f"c{number}", user="alice", password=b"demo").code == 0
            if {row["worker"] for row in control.clients()["clients"]} == {0, 1}:
                break
        assert {row["worker"] for row in control.clients()["clients"]} == {0, 1}
        for _ in range(20):
            one = stack.enter_context(MqttPeer(rules.sidecar.ready["clients"][0], websocket=True))
            assert one.connect("w", user="alice", password=b"wrong").code in (
                Reason.BAD_USER_OR_PASSWORD,
                Reason.SERVER_BUSY,
            )
        assert len(django.asked) == 11


def test_without_the_setting_a_password_is_a_token() -> None:
    with ruled(rule(1, "/stocks/**"), listen=LISTEN, mqtt_passwords=0) as rules:
        assert comes(rules).code == Reason.BAD_USER_OR_PASSWORD
        with pytest.raises(ControlRefused, match="verbs: "):
            CheckingPasswords(rules.sidecar.control)
