"""Tasks of Django 6.0 publish, by its immediate backend; a program without Django does, as the manual has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.guide import one
from tests.support.realtime.server import ROOT
from tests.support.sidecar import Sidecar
from tests.support.spark.writing import contents
from tests.support.tokens import SECRET, mint_jwt

SETTINGS = """
SECRET_KEY = "shop"
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {folder!r} + "/db"}}}}
REALTIME = {{"CONTROL": {control!r}}}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "realtime", "entitlement"]
TASKS = {{"default": {{"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}}}}
"""

ORDERS = """
import asyncio
from functools import partial

import django

django.setup()

from django.db import transaction
from django.tasks import TaskResultStatus, task

import shop
from realtime import apublish, publish


class Order:
    def __init__(self, number):
        self.pk = number

    def pay(self):
        pass


@task
async def anote(number):
    await apublish(f"/orders/{number}", "noted")


shop.pay(Order(1))
with transaction.atomic():
    publish("/orders/2", "paid")
    assert shop.ship.enqueue(2).status == TaskResultStatus.SUCCESSFUL
try:
    with transaction.atomic():
        shop.pay(Order(3))
        shop.ship.enqueue(3)
        raise LookupError
except LookupError:
    pass
asyncio.run(anote.aenqueue(4))
"""


def test_tasks_publish(tmp_path: Path, sidecar: Sidecar) -> None:
    """After the commit, in order, and nothing of what is rolled back; an older Django has no tasks to do it with.

    ``INSTALLED_PYTHON`` is an interpreter with another Django, as `make matrix` gives it.
    """
    python = os.environ.get("INSTALLED_PYTHON") or sys.executable
    shop = one("docs/develop/publishing.md", "python", "from django.tasks import task")
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "shop_settings.py").write_text(SETTINGS.format(folder=str(tmp_path), control=sidecar.control))
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "shop_settings", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    asked = [python, "-c", "import django; print(*django.VERSION[:2])"]
    version = tuple(map(int, subprocess.run(asked, capture_output=True, check=True, text=True).stdout.split()))
    done = subprocess.run(
        [python, "-c", ORDERS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    if version < (6, 0):
        assert "No module named 'django.tasks'" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert [contents(sidecar, f"/orders/{number}") for number in range(1, 5)] == [
        ["paid", "shipped"], ["paid", "shipped"], [], ["noted"],
    ]  # fmt: skip


def test_a_program_without_django_publishes(tmp_path: Path) -> None:
    """As cron starts it: with two variables, from another folder, and one line where it does not work."""
    program = tmp_path / "nightly.py"
    program.write_text(one("docs/develop/publishing.md", "python", "from fastpath.client.blocking import connect"))
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:

        def run(**environment: str) -> tuple[int, str]:
            given = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "FEED_URL": sidecar.client_url} | environment
            done = subprocess.run(
                [sys.executable, program], cwd="/", env=given, capture_output=True, text=True, timeout=120
            )
            return done.returncode, done.stdout + done.stderr

        right = mint_jwt("feed", publish=["/reports/*"])
        assert [run(FEED_TOKEN=right) for _ in range(2)] == [(0, "stored as number 1\n"), (0, "stored as number 2\n")]
        assert contents(sidecar, "/reports/nightly") == ["done", "done"]
        status, said = run(FEED_TOKEN=mint_jwt("feed", subscribe=["/**"]))
        assert (status, said.startswith("not published: "), said.count("\n")) == (1, True, 1), said
        status, said = run(FEED_TOKEN=right, FEED_URL="ws://127.0.0.1:1/ws")
        assert (status, said.startswith("not published: "), said.count("\n")) == (1, True, 1), said
