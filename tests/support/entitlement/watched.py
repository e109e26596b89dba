"""Users whose rights are watched on live connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore

from entitlement import conf, tokens
from entitlement.following import compiler
from entitlement.models import Rule
from fastpath.client.control.client import Control
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SUBJECT = "/stocks/us/AAPL"


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A sidecar that trusts this project's tokens."""
    with Sidecar(mode="rules", token_secret=conf.token_secret()) as sidecar:
        yield sidecar


@pytest.fixture
def node(running: Sidecar, settings: Any) -> Sidecar:
    """It, with the rights of the test before, which those of a later generation follow."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    return running


class Watched:
    """Viewers whose rights are about to end, each in another way; an agent follows, unless one does already."""

    def __init__(self, node: Sidecar, *, agent: bool = True) -> None:
        self._node = node
        self._agent = agent
        self._open = ExitStack()

    def __enter__(self) -> Self:
        group = Group.objects.create(name="desk")
        self.rule = Rule.objects.create(group=group, pattern="/stocks/**")
        self.users = {name: User.objects.create_user(name) for name in ("bob", "eve", "ann", "max", "zoe")}
        group.user_set.set(self.users.values())
        self.session = SessionStore()
        self.session.create()
        given = {
            name: tokens.mint(user, self.session if name == "eve" else None)[0] for name, user in self.users.items()
        }
        if self._agent:
            self._open.enter_context(RunningAgent(self._node.control))
        self.control = self._open.enter_context(Control(self._node.control))
        until(
            lambda: self.control.hello()["generation"] == compiler.position().generation, 60
        )  # Django may have to start
        self.viewers = {
            name: self._open.enter_context(Viewer(self._node.client_url, token)) for name, token in given.items()
        }
        for viewer in self.viewers.values():
            assert viewer.subscribe(SUBJECT) == ""
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def all_end(self) -> None:
        """Take each right back, and see it end in time."""
        self.session.flush()
        assert self.viewers["eve"].closed() == 4502
        User.objects.filter(username="bob").update(is_active=False)
        assert self.viewers["bob"].closed() == 4502
        User.objects.filter(username="ann").update(password="!")
        assert self.viewers["ann"].closed() == 4007
        self.users["max"].groups.clear()
        self.viewers["max"].revoked(SUBJECT)
        self.rule.delete()
        self.viewers["zoe"].revoked(SUBJECT)
