"""Passwords of Django's users, from the database through the agent's threads to a client of MQTT at a real sidecar."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from entitlement import conf, passwords, tokens
from entitlement.following.compiler import position
from entitlement.models import Rule
from entitlement.passwords import PasswordChecks, Unsettled, check
from fastpath.client.control.client import Control
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify
from fastpath.core.mqtt.packets import Disconnect
from fastpath.core.mqtt.reasons import Reason
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.entitlement.live import RunningAgent
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def test_who_has_the_password_gets_a_token(bob: Any) -> None:
    claims = verify(check("bob", "demo", "10.0.0.1"), Keys(conf.token_secret()), int(time.time() * 1000))
    assert (claims.user, claims.uid, claims.generation) == ("bob", str(bob.pk), position().generation)
    assert not check("bob", "Demo")
    assert not check("nobody", "demo")
    User.objects.update(is_active=False)
    assert not check("bob", "demo")


def test_a_password_that_changes_while_it_is_looked_at_is_looked_at_again(
    bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a token of after the change would stand for a password of before it."""

    def mint_late(user: User) -> tuple[str, int]:
        other = User.objects.get(pk=user.pk)
        other.set_password("other")
        other.save()
        return minted(user)

    minted = tokens.mint
    monkeypatch.setattr(tokens, "mint", mint_late)
    with pytest.raises(Unsettled):
        check("bob", "demo")


@pytest.fixture
def node() -> Iterator[Sidecar]:
    """A sidecar whose rights are followed, and whose passwords are checked."""
    stop = threading.Event()
    with (
        Sidecar(mode="rules", token_secret=conf.token_secret(), listen=LISTEN) as sidecar,
        RunningAgent(sidecar.control),
    ):
        PasswordChecks(stop).start([sidecar.control])
        try:
            yield sidecar
        finally:
            stop.set()


def comes(node: Sidecar, password: bytes, level: int = 5) -> int:
    """What bob is answered, once Django is there."""
    with MqttPeer(node.ready["mqtt"][0], level) as one:
        return one.connect("a", user="bob", password=password).code


@pytest.mark.django_db(transaction=True)
def test_a_user_comes_and_goes_with_the_password(node: Sidecar, bob: Any) -> None:
    """A new one, and the end of the user, end connections; and what is remembered of the old one."""
    Rule.objects.create(user=bob, pattern="/stocks/**")
    until(lambda: comes(node, b"demo") == 0)
    with Control(node.control) as control:
        until(lambda: control.hello().get("generation") == position().generation)
    with mqtt(node, "b", user="bob", password=b"demo") as one:
        assert one.subscribe("/stocks/us/IBM", "/orders/1") == [1, 0x80]
        bob.set_password("new")
        bob.save()
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.NOT_AUTHORIZED]
    assert comes(node, b"demo") == Reason.BAD_USER_OR_PASSWORD
    assert comes(node, b"demo", 4) == 4
    with mqtt(node, "b", user="bob", password=b"new") as one:
        User.objects.update(is_active=False)
        assert [each.code for each in one.ended() if isinstance(each, Disconnect)] == [Reason.NOT_AUTHORIZED]
    assert comes(node, b"new") == Reason.BAD_USER_OR_PASSWORD


@pytest.mark.django_db(transaction=True)
def test_a_fault_of_django_is_no_wrong_password(
    node: Sidecar, bob: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: comes(node, b"demo") == 0)

    def fails(*_: object) -> str:
        raise RuntimeError("no database")

    monkeypatch.setattr(passwords, "check", fails)
    assert comes(node, b"wrong") == Reason.SERVER_UNAVAILABLE
    assert "no database" in caplog.text
    assert "wrong" not in caplog.text
