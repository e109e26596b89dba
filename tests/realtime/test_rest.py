"""Views over the REST framework in a project that has chosen everything differently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from tests.support.sidecar import ROOT

ASKING = """
import json
import django
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
client, answers = Client(), {}

def ask(what, answer):
    answers[what] = [answer.status_code, answer["Content-Type"], answer.content.decode()]

ask("no token", client.post("/realtime/token/"))
ask("no statistics", client.get("/api/stats/"))
ask("no metrics", client.get("/metrics", headers={"Accept": "text/html"}))
client.force_login(get_user_model().objects.create_user("zoë"))
ask("no right", client.get("/api/stats/"))
client.force_login(get_user_model().objects.create_superuser("bob_b"))
for number in range(5):
    ask(f"token {number}", client.post("/realtime/token/", {"json": True}, "application/json"))
ask("a browser's token", client.post("/realtime/token/", headers={"Accept": "text/html,*/*;q=0.8"}))
ask("wrong method", client.get("/realtime/token/"))
ask("statistics", client.get("/api/stats/", headers={"Accept": "text/html,*/*;q=0.8"}))
ask("statistics as csv", client.get("/api/stats/?format=csv"))
ask("series", client.get("/api/stats/series/?indicator=connections&window=1h"))
ask("unknown name", client.get("/api/stats/?indicators=none"))
ask("metrics", client.get("/metrics"))
ask("options", client.options("/api/stats/"))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """What is answered there: the framework reads a project's choices once, so that it takes another process."""
    folder = tmp_path_factory.mktemp("choosing")
    done = subprocess.run(
        [sys.executable, "-c", ASKING],
        cwd=ROOT,
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "tests.support.realtime.choosing.settings",
            "REALTIME_VAR": str(folder),
            "REALTIME_DATABASE": str(folder / "db.sqlite3"),
            "REALTIME_ALLOWED_HOSTS": "testserver",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_statuses_are_ours(answers: dict[str, tuple[int, str, str]]) -> None:
    """No throttle, permission, version or handler of the project has a say."""
    assert {what: status for what, (status, _, _) in answers.items() if status != 200} == {
        "no token": 401,
        "no statistics": 401,
        "no metrics": 401,
        "no right": 403,
        "wrong method": 405,
        "unknown name": 400,
    }


def test_forms_are_ours(answers: dict[str, tuple[int, str, str]]) -> None:
    """Neither names nor types of the project's renderers, and no page for browsers."""
    forms = {what: form.partition(";")[0] for what, (_, form, _) in answers.items()}
    assert {what for what, form in forms.items() if form != "application/json"} == {"statistics as csv", "metrics"}
    assert (forms["statistics as csv"], forms["metrics"]) == ("text/csv", "text/plain")
    read = {what: json.loads(body) for what, (_, _, body) in answers.items() if forms[what] == "application/json"}
    assert set(read["token 4"]) == {"token", "expires", "user"}
    assert set(read["a browser's token"]) == {"token", "expires", "user"}
    assert set(read["series"]) == {"window", "seconds", "t", "connections"}
    assert all(set(read[what]) == {"detail"} for what in ("no token", "no statistics", "no right", "unknown name"))
    assert read["options"]["name"] != "named by the project"
    assert '": "' not in answers["no token"][2], "compact, as ever"


def views(patterns: list[URLPattern | URLResolver]) -> Iterator[type[Any]]:
    """The views over the framework in a URLconf."""
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from views(one.url_patterns)
        elif issubclass(view := getattr(one.callback, "cls", object), APIView):
            yield view


@pytest.mark.parametrize("urlconf", ["realtime.endpoints", "realtime.urls", "realtime.outside.urls"])
def test_every_view_has_every_policy_of_its_own(urlconf: str) -> None:
    """Whatever else the framework may read of a project's settings one day."""
    found = set(views(get_resolver(urlconf).url_patterns))
    assert len(found) >= 2
    policies = {name for name, value in vars(APIView).items() if not isinstance(value, FunctionType | classmethod)}
    policies = {
        name for name in policies if not name.startswith("__") and not isinstance(vars(APIView)[name], property)
    }
    assert {"renderer_classes", "throttle_classes", "settings", "schema"} <= policies
    for view in found:
        own = {name for one in view.__mro__[: view.__mro__.index(APIView)] for name in vars(one)}
        assert policies - own == set(), view
