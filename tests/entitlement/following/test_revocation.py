"""What ends in Django ends on every worker of a real sidecar, and with a code that says what next."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import jwt
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from websockets.exceptions import ConnectionClosed

from entitlement import conf, tokens
from entitlement.following import compiler
from entitlement.models import RevokedToken, Rule
from fastpath.client.control.client import Control
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SUBJECT = "/stocks/us/AAPL"
WORKERS = 2
TRIES_MAX = 200

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """Two workers in mode rules that trust this project's tokens."""
    with Sidecar(mode="rules", token_secret=conf.token_secret(), workers=WORKERS) as sidecar:
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def sidecar(running: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """It, followed by an agent, with a desk that may read and publish everything of the stocks."""
    assert not getattr(connection, "is_in_memory_db", bool)(), "the agent's thread needs a database in a file"
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    Rule.objects.create(group=Group.objects.create(name="desk"), pattern="/stocks/**", action="both")
    with RunningAgent(running.control):
        sync(running)
        yield running


def at_the_desk(name: str) -> User:
    """A user with a password, in the group."""
    made = User.objects.create_user(name, password="demo")
    made.groups.add(Group.objects.get_or_create(name="desk")[0])
    return made


@pytest.fixture
def bob() -> User:
    """Who is meant."""
    return at_the_desk("bob")


def sync(sidecar: Sidecar) -> None:
    """Wait until the sidecar has what the database has."""
    with Control(sidecar.control) as control:
        until(lambda: control.hello()["generation"] == compiler.position().generation)


@contextmanager
def everywhere(sidecar: Sidecar, token: str) -> Iterator[list[Viewer]]:
    """A viewer with this token on each worker, who reads the subject."""
    with ExitStack() as stack:
        by_server: dict[str, Viewer] = {}
        for _ in range(TRIES_MAX):
            viewer = stack.enter_context(Viewer(sidecar.client_url, token))
            by_server.setdefault(viewer.server, viewer)
            if len(by_server) == WORKERS:
                break
        assert len(by_server) == WORKERS
        for viewer in by_server.values():
            assert viewer.subscribe(SUBJECT) == ""
        yield list(by_server.values())


def change_password(bob: User, token: str) -> None:
    """As a form does."""
    bob.set_password("another")
    bob.save()


CLOSES: dict[str, tuple[int, str, Callable[[User, str], object]]] = {
    "logout": (4502, "signed out", lambda bob, token: SessionStore(Session.objects.get().session_key).flush()),
    "deleted session": (4502, "signed out", lambda bob, token: Session.objects.all().delete()),
    "deactivated": (4502, "the user is not active", lambda bob, token: _update(bob, is_active=False)),
    "deleted": (4502, "the user is not active", lambda bob, token: bob.delete()),
    "token revoked": (4502, "the token was revoked", lambda bob, token: tokens.revoke(token)),
    "password": (4007, "the password or the rights were changed: get a new token", change_password),
}


def _update(user: User, **values: Any) -> None:
    User.objects.filter(pk=user.pk).update(**values)


def test_connections_end(sidecar: Sidecar) -> None:
    """In each way those of one user, and of nobody else."""
    users = {way: at_the_desk(way) for way in CLOSES}
    with Viewer(sidecar.client_url, tokens.mint(at_the_desk("eve"))[0]) as other:
        for way, (code, reason, change) in CLOSES.items():
            Session.objects.all().delete()
            session = SessionStore()
            session.create()
            sync(sidecar)
            token = tokens.mint(users[way], session)[0]
            with everywhere(sidecar, token) as viewers:
                change(users[way], token)
                for viewer in viewers:
                    assert viewer.revoked(SUBJECT) == reason
                    assert viewer.closed() == code, way
            with pytest.raises(ConnectionClosed, match=str(code)):
                Viewer(sidecar.client_url, token)
        assert other.ask("ping")["op"] == "pong"


CUTS: dict[str, Callable[[User, Group], object]] = {
    "left the group": lambda bob, group: group.user_set.remove(bob),
    "group deleted": lambda bob, group: group.delete(),
    "no superuser": lambda bob, group: _update(bob, is_superuser=False),
    "rule changed": lambda bob, group: Rule.objects.update(effect="deny"),
}


def test_subscriptions_end(sidecar: Sidecar) -> None:
    """While the connection stays."""
    for number, (way, change) in enumerate(CUTS.items()):
        group = Group.objects.create(name=way)
        Rule.objects.create(group=group, pattern=SUBJECT)
        user = User.objects.create_user(f"user{number}", is_superuser=way == "no superuser")
        if not user.is_superuser:
            user.groups.add(group)
        sync(sidecar)
        with everywhere(sidecar, tokens.mint(user)[0]) as viewers:
            change(user, group)
            for viewer in viewers:
                viewer.revoked(SUBJECT)
                assert viewer.ask("ping")["op"] == "pong", way


def test_a_renamed_group_is_the_same_group(sidecar: Sidecar, bob: User) -> None:
    before = compiler.position()
    Group.objects.update(name="NYSE desk")
    assert compiler.position() == before
    sync(sidecar)
    with Viewer(sidecar.client_url, tokens.mint(bob)[0]) as viewer:
        assert viewer.subscribe(SUBJECT) == ""


def test_who_changes_the_password_in_a_page_goes_on_without_loss(sidecar: Sidecar, bob: User) -> None:
    """The session stays, under another key; its token ends with 4007, and the next one resumes."""
    browser, elsewhere = Client(), Client()
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    for one in (browser, elsewhere):
        assert one.login(username="bob", password="demo")
    token, other = (one.post("/realtime/token/").json()["token"] for one in (browser, elsewhere))
    sync(sidecar)
    with Control(sidecar.control) as control:
        epoch = control.publish([[SUBJECT, "1"]])["epoch"]
        with Viewer(sidecar.client_url, token) as viewer, Viewer(sidecar.client_url, other) as thief:
            [result] = viewer.ask("subscribe", subjects=[SUBJECT])["results"]
            form = {"old_password": "demo", "new_password1": "a new one 4711", "new_password2": "a new one 4711"}
            assert browser.post("/admin/password_change/", form).status_code == 302
            assert viewer.closed() == thief.closed() == 4007
        control.publish([[SUBJECT, "2"]])
        assert elsewhere.post("/realtime/token/").status_code == 401, "its session ended with the password"
        token = browser.post("/realtime/token/").json()["token"]
        with Viewer(sidecar.client_url, token) as viewer:
            [result] = viewer.ask("subscribe", subjects=[SUBJECT], since={SUBJECT: [epoch, result["seq"]]})["results"]
            assert (result["recovery"], result["messages"]) == ("recovered", 1)
            assert viewer.told(lambda frame: isinstance(frame, list))[3] == "2"


# What can be revoked


def test_a_token_is_revoked_by_itself_or_by_its_id(bob: User) -> None:
    first, second = (tokens.mint(bob)[0] for _ in range(2))
    row = tokens.revoke(f"\n {first} ", by=bob, note="lost")
    assert (row.user_name, row.by, row.note) == ("bob", bob, "lost")
    assert row.expires.timestamp() == pytest.approx(time.time() + 12 * 3600, abs=600)
    assert tokens.revoke(row.jti) == tokens.revoke(first) == row, "once is enough"
    other = tokens.revoke("some-id")
    assert (other.user_name, other.by) == ("", None)
    assert other.expires.timestamp() == pytest.approx(time.time() + 30 * 24 * 3600, abs=600)
    assert tokens.find(second).pk is None
    get_user_model().objects.all().delete()
    assert RevokedToken.objects.get(pk=row.pk).by is None


@pytest.mark.parametrize("given", ["", "  ", "a b", "x" * 256, "a.b.c", "eyJhbGciOiJub25lIn0.eyJqdGkiOiJ4In0."])
def test_what_cannot_be_revoked(given: str) -> None:
    with pytest.raises(tokens.RevokeError):
        tokens.revoke(given)
    assert not RevokedToken.objects.exists()


def test_an_ended_token_can_be_revoked_and_another_projects_cannot(bob: User, settings: Any) -> None:
    token = jwt.encode({"sub": "bob", "jti": "x", "exp": int(time.time()) - 60}, conf.token_secret())
    assert tokens.revoke(token).user_name == "bob"
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECRET": "o" * 32}
    with pytest.raises(tokens.RevokeError, match="no token that this project has signed"):
        tokens.revoke(token)


def test_the_admins_page(bob: User) -> None:
    browser = Client()
    root = User.objects.create_superuser("root")
    browser.force_login(root)
    token = tokens.mint(bob)[0]
    add = "/admin/entitlement/revokedtoken/add/"
    assert "The token itself is not kept" in browser.get(add).content.decode()
    page = browser.post(add, {"token": token + "x", "note": ""})
    assert "no token that this project has signed" in page.content.decode()
    assert browser.post(add, {"token": token, "note": "found in a log"}).status_code == 302
    [row] = RevokedToken.objects.all()
    assert (row.user_name, row.by, row.note) == ("bob", root, "found in a log")
    assert "is revoked already" in browser.post(add, {"token": row.jti}).content.decode()
    page = browser.get("/admin/entitlement/revokedtoken/?q=bob")
    assert row.jti in page.content.decode()
    one = f"/admin/entitlement/revokedtoken/{row.pk}/"
    assert "found in a log" in browser.get(f"{one}change/").content.decode()
    for path, data in ((f"{one}change/", {"note": "other"}), (f"{one}delete/", {"post": "yes"})):
        assert browser.post(path, data).status_code == 403
    assert token not in str(list(itertools.chain.from_iterable(RevokedToken.objects.values_list())))
