"""Tasks of a real Celery worker publish, and transactions publish and send tasks: Redis is the broker, workers fork."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.realtime.server import ROOT, Program
from tests.support.redis_servers import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis

SETTINGS = """
SECRET_KEY = "shop"
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {folder!r} + "/db"}}}}
REALTIME = {{"CONTROL": {control!r}}}
CHANNEL_LAYERS = {{"default": {{"BACKEND": "realtime.layers.FastpathChannelLayer"}}}}
CELERY_BROKER_URL = {broker!r}
CELERY_TASK_IGNORE_RESULT = True
"""

SHOP = """
import os

from asgiref.sync import async_to_sync
from celery import Celery
from celery.signals import worker_init
from channels.layers import get_channel_layer

from realtime import publish

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")


@worker_init.connect
def loaded(**_):  # in the parent, which has a connection to the sidecar when it forks
    publish("/shop/loaded", str(os.getpid()))


@app.task
def ship(number):
    publish(f"/orders/{number}", "shipped", {"by": str(os.getpid())})


@app.task
def tell(channel):
    async_to_sync(get_channel_layer().send)(channel, {"type": "told", "by": os.getpid()})
"""

ORDER = """
import django

django.setup()

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from realtime import publish
from shop import ship, tell

for number in range(4):
    with transaction.atomic():
        publish(f"/orders/{number}", "paid")
        ship.delay_on_commit(number)
try:
    with transaction.atomic():
        publish("/orders/back", "paid")
        ship.delay_on_commit("back")
        raise LookupError
except LookupError:
    pass
ship.delay("last")

layer = get_channel_layer()
channel = async_to_sync(layer.new_channel)()
tell.delay(channel)
print(async_to_sync(layer.receive)(channel)["by"])
"""


@pytest.fixture
def shop(sidecar: Sidecar, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a project with a worker of two processes, which runs."""
    with RedisServer() as broker:
        settings = SETTINGS.format(folder=str(tmp_path), control=sidecar.control, broker=broker.url)
        for name, text in ("shop_settings", settings), ("shop", SHOP), ("order", ORDER):
            (tmp_path / f"{name}.py").write_text(text)
        path = os.pathsep.join(filter(None, (str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {"DJANGO_SETTINGS_MODULE": "shop_settings", "PYTHONPATH": path}
        command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "prefork", "-c", "2", "-l", "info"]
        with Program(command, environment, r"ready\.", 60):
            yield environment


def test_tasks_publish_and_transactions_publish_and_send_tasks(
    shop: dict[str, str], sidecar: Sidecar, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "order.py"], cwd=tmp_path, env=os.environ | shop, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    with Control(sidecar.control) as control:

        def contents(subject: str) -> list[str]:
            return [message["content"] for message in reversed(control.history(subject)["messages"])]

        until(lambda: "/orders/last" in [row[0] for row in control.subjects("/orders/*")["subjects"]], 30)
        assert contents("/orders/last") == ["shipped"]
        [parent] = contents("/shop/loaded")
        workers = set()
        for number in range(4):
            until(lambda number=number: len(contents(f"/orders/{number}")) == 2, 30)  # type: ignore[misc]
            # What was published first has left before the task is sent, however quick the worker is.
            assert contents(f"/orders/{number}") == ["paid", "shipped"]
            workers.add(control.history(f"/orders/{number}")["messages"][0]["fields"]["by"])
        assert parent not in workers | {done.stdout.strip()}
        assert "/orders/back" not in [row[0] for row in control.subjects("/orders/*")["subjects"]]
