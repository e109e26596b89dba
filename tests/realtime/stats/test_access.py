"""Who may read the statistics over HTTP: with a session, a password, a token."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.test import Client

from entitlement.tokens import mint, revoke
from realtime.stats import access

pytestmark = pytest.mark.django_db

STATS = "/api/stats/"


class Counting(ModelBackend):
    """Django's own, which notes when it is asked."""

    asked: list[str] = []

    def authenticate(self, request: Any, username: str | None = None, password: str | None = None, **more: Any) -> Any:
        """The user, or None."""
        self.asked.append(str(username))
        return super().authenticate(request, username, password, **more)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """No password is remembered from another test."""
    access._proved.clear()


@pytest.fixture
def watcher() -> User:
    """May see the monitoring, and nothing else."""
    user = User.objects.create_user("watcher", password="pässword: x")
    user.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    return user


def ask(authorization: str = "", **headers: str) -> Any:
    """GET the statistics, as nobody."""
    given = headers | ({"Authorization": authorization} if authorization else {})
    return Client().get(STATS, headers=given)


def basic(user: str, password: str) -> str:
    """As RFC 7617 writes it."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_a_session_a_password_and_a_token_all_count(watcher: User) -> None:
    signed_in = Client()
    signed_in.force_login(watcher)
    assert signed_in.get(STATS).status_code == 200
    assert ask(basic("watcher", "pässword: x")).status_code == 200
    assert ask(f"Bearer {mint(watcher)[0]}").status_code == 200


def test_without_proof_401_and_without_the_permission_403(watcher: User) -> None:
    nobody = ask()
    assert nobody.status_code == 401
    assert nobody["WWW-Authenticate"] == 'Bearer, Basic realm="monitoring", charset="UTF-8"'
    script = ask(**{"Sec-Fetch-Dest": "empty"})
    assert (script.status_code, script["WWW-Authenticate"]) == (401, "Bearer"), "no window that asks for a password"
    assert ask(basic("watcher", "wrong")).status_code == 401
    assert ask(basic("nobody", "x")).status_code == 401
    assert ask("Bearer x.y.z").status_code == 401
    staff = User.objects.create_user("staff", password="x", is_staff=True)
    assert ask(basic("staff", "x")).status_code == 403
    assert ask(f"Bearer {mint(staff)[0]}").status_code == 403
    assert access.VIEW in ask(f"Bearer {mint(staff)[0]}").json()["detail"]
    watcher.user_permissions.clear()
    assert ask(basic("watcher", "pässword: x")).status_code == 403, "what is remembered is the password alone"


def test_superusers_may_and_who_is_not_active_may_not(watcher: User) -> None:
    root = User.objects.create_superuser("root", password="x")
    assert ask(basic("root", "x")).status_code == 200
    token, _ = mint(watcher)
    assert ask(basic("watcher", "pässword: x")).status_code == 200
    User.objects.filter(pk__in=[root.pk, watcher.pk]).update(is_active=False)
    assert ask(basic("root", "x")).status_code == 401
    assert ask(basic("watcher", "pässword: x")).status_code == 401
    assert ask(f"Bearer {token}").status_code == 401


def test_a_password_that_was_right_is_not_hashed_again_and_ends_when_it_changes(
    watcher: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AUTHENTICATION_BACKENDS = ["tests.realtime.stats.test_access.Counting"]
    asked = Counting.asked
    asked.clear()
    old = basic("watcher", "pässword: x")
    assert [ask(old).status_code for _ in range(3)] == [200] * 3
    assert len(asked) == 1
    watcher.set_password("another")
    watcher.save()
    assert ask(old).status_code == 401
    assert ask(basic("watcher", "another")).status_code == 200
    later = time.monotonic() + access.PROVED_SECONDS + 1
    monkeypatch.setattr(access.time, "monotonic", lambda: later)
    asked.clear()
    assert ask(basic("watcher", "another")).status_code == 200
    assert len(asked) == 1, "it counts for a minute"
    access._proved.clear()
    access._proved.update({bytes([number]): (0.0, watcher, "") for number in range(access.PROVED_MAX)})
    assert ask(basic("watcher", "another")).status_code == 200
    assert len(access._proved) == 1, "they are bounded"


def test_what_ends_a_token_on_the_sidecar_ends_it_here(watcher: User) -> None:
    kept, _ = mint(watcher)
    gone, _ = mint(watcher)
    revoke(gone)
    assert ask(f"Bearer {gone}").json() == {"detail": "the token was revoked"}
    signed_in = Client()
    signed_in.force_login(watcher)
    of_session, _ = mint(watcher, signed_in.session)
    assert ask(f"Bearer {of_session}").status_code == 200
    signed_in.logout()
    assert ask(f"Bearer {of_session}").json() == {"detail": "signed out"}
    assert ask(f"Bearer {kept}").status_code == 200, "another's end is none of its own"
    other = User.objects.create_user("other", password="x")
    other.set_password("y")
    other.save()
    assert ask(f"Bearer {kept}").status_code == 200
    watcher.set_password("z")
    watcher.save()
    assert "password or the rights were changed" in ask(f"Bearer {kept}").json()["detail"]
    new, _ = mint(watcher)
    assert ask(f"Bearer {new}").status_code == 200
    watcher.delete()
    assert ask(f"Bearer {new}").status_code == 401


def test_who_may_operate_may_see(watcher: User) -> None:
    operate = Permission.objects.get(codename="operate_monitoring")
    other = User.objects.create_user("other")
    other.user_permissions.add(operate)
    assert (access.may_view(other), access.may_operate(other)) == (False, False)
    assert (access.may_view(watcher), access.may_operate(watcher)) == (True, False)
    watcher.user_permissions.add(operate)
    assert access.may_operate(User.objects.get(pk=watcher.pk))
    assert not access.may_view(AnonymousUser())
