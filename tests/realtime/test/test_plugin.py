"""The fixtures, as pytest and Django's runner find them in somebody else's project, and the types that its code has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from entitlement.models import Rule
from realtime import publish
from realtime.test import VirtualClock
from realtime.test.plugin import as_user, assert_published, clock, published, realtime, subscriber
from tests.support.guide import every
from tests.support.sidecar import ROOT

__all__ = ["as_user", "assert_published", "clock", "published", "realtime", "subscriber"]

SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, "realtime", "entitlement"]
REALTIME = {"CONTROL": BASE_DIR / "nobody.sock"}
"""

WITH_FIXTURES = """
import asyncio
import pytest
from django.contrib.auth.models import User
from django.db import transaction
from entitlement.models import Rule
from fastpath.client.blocking import connect
from entitlement.tokens import mint
from realtime import Position, apublish, publish

@pytest.mark.django_db
def test_published(published, assert_published):
    with transaction.atomic():
        publish("/orders/1", {"n": 1})
        assert len(published) == 0
    assert [one.json() for one in published] == [{"n": 1}]
    assert published[-1].subject == "/orders/1"
    assert_published("/orders/1", content={"n": 1})

def test_without_a_database(published):
    publish("/orders/1", "x")
    asyncio.run(apublish("/orders/1", "y"))
    assert [one.content for one in published] == ["x", "y"]

@pytest.mark.django_db
def test_subscriber(subscriber, as_user, clock):
    bob = User.objects.create_user("bob")
    Rule.objects.create(user=bob, pattern="/orders/*")
    client = subscriber(bob, "/orders/1", conflation=1000)
    publish("/orders/1", "x")
    assert client.contents() == []
    clock.advance(seconds=1)
    assert client.contents() == ["x"]
    assert not as_user(bob).may_publish("/orders/1")

@pytest.mark.django_db(transaction=True)
def test_without_the_kit_nothing_is_sent():
    assert publish("/orders/1", "x") == Position(0, 0)
"""

LIVE = """

def test_live(live_sidecar):
    bob = User.objects.create_user("bob")
    Rule.objects.create(user=bob, pattern="/orders/*")
    assert publish("/orders/1", "x").epoch > 0
    with connect(live_sidecar.client_url, token=mint(bob)[0]) as client:
        stream = client.subscribe("/orders/1")
        assert next(iter(stream)).content == "x"
"""

SHIP = """
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.urls import path
from realtime import publish

@transaction.atomic
def ship(request, order):
    publish(f"/orders/{order}", {"state": "shipped"})
    return HttpResponse()

urlpatterns = [path("orders/<int:order>/ship/", ship)]
"""
"""The view that the guide tests."""

WITH_CASES = """
from django.test import TestCase
from realtime import publish
from realtime.test import RealtimeTestCase

class Orders(RealtimeTestCase, TestCase):
    def test_it(self):
        publish("/orders/1", "x")
        self.assert_published("/orders/1", "x")
"""

TYPED = """
from datetime import datetime
from decimal import Decimal

from realtime import Position, Publication, PublishManyFailed, PublishRefused, apublish, publish, publish_many
from realtime.test import RealtimeTestCase


def shipped(order: int, price: Decimal) -> int:
    position: Position | None = publish(f"/orders/{order}", {"price": price, "at": datetime.now()}, {"n": 3})
    publish("/orders/1", price, reply_to="/replies/1", closure="c", as_of={"version": 3}, fail_silently=True)
    try:
        many: list[Position] | None = publish_many([("/a/b", "x"), ("/a/b", [1], {"f": "1"}), {"subject": "/a/b"}])
        publish_many([Publication("/a/b", b"x", retained=False)])
    except PublishManyFailed as error:
        return len(error.outcomes)
    except PublishRefused as error:
        print(error.code, error.reason, error.subject)
    return len(many or []) + (position.seq if position else 0)


async def soon() -> Position | None:
    return await apublish("/a/b", "x")
"""

WRONG = """
from realtime import apublish, publish, publish_many

publish("/a/b", object())
publish(7, "x")
publish("/a/b", "x", retaind=False)
publish_many(["/a/b"])
x: str = publish("/a/b", "x")


async def soon() -> str:
    return await apublish("/a/b", "x")
"""


def run(folder: Path, *arguments: str, fails: bool = False) -> str:
    """What it printed, once it has ended well; nothing of this repository's settings but the packages."""
    names = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project, whose tests know nothing of this repository's."""
    run(tmp_path, "-m", "django", "startproject", "shop", ".")
    with (tmp_path / "shop" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    return tmp_path


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "realtime.test.plugin", "--ds=shop.settings")


@pytest.mark.django_db
def test_the_fixtures_are_one_kit(
    published: Any, assert_published: Any, subscriber: Any, as_user: Any, clock: VirtualClock
) -> None:
    """All of a test speak of the same messages."""
    bob = User.objects.create_user("bob")
    Rule.objects.create(user=bob, pattern="/orders/*")
    client = subscriber(bob, "/orders/1", conflation=1000)
    with transaction.atomic():
        publish("/orders/1", {"n": 1})
        assert list(published) == []
    assert_published("/orders/1", content={"n": 1})
    assert (len(published), published[0].json(), client.contents()) == (1, {"n": 1}, [])
    clock.advance(seconds=1)
    assert client.contents() == ['{"n":1}']
    assert not as_user(bob).may_publish("/orders/1")
    assert "/orders/1" in repr(published)


@pytest.mark.slow
def test_the_fixtures_of_a_project(project: Path) -> None:
    """The plugin is loaded before Django is, as by its entry point; the sidecar is a real one; the guide's run, too."""
    (project / "shop" / "test_fixtures.py").write_text(WITH_FIXTURES + LIVE)
    (project / "shop" / "urls.py").write_text(SHIP)
    for number, block in enumerate(every("docs/develop/testing.md", "python")):
        (project / "shop" / f"test_{number}.py").write_text(block.text)
    assert "10 passed" in run(project, *PYTEST, "--rootdir=.", "shop")


def test_the_cases_of_a_project_beside_each_other(project: Path) -> None:
    """Each process has a backend of its own."""
    (project / "shop" / "tests.py").write_text(WITH_CASES)
    (project / "shop" / "test_more.py").write_text(WITH_CASES.replace("Orders", "More"))
    assert "OK" in run(project, "manage.py", "test", "--parallel", "2", "shop.tests", "shop.test_more")


@pytest.mark.slow
def test_a_projects_types_are_checked(tmp_path: Path) -> None:
    """With mypy as strict as it is, and without the types of Django."""
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(WRONG)
    mypy = ("-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "--cache-dir=cache")
    assert "Success" in run(tmp_path, *mypy, "typed.py")
    told = run(tmp_path, *mypy, "wrong.py", fails=True)
    assert "Found 6 errors" in told
    assert 'did you mean "retained"' in told
