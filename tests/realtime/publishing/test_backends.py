"""publish() in somebody else's test runs: it needs no sidecar, and one that runs hears nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from fastpath.client.control.client import Control
from realtime import checks, publish
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tap import tapped

SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, "realtime", "entitlement"]
REALTIME = {"CONTROL": BASE_DIR / "c.sock"}
"""

MAILS = """
from django.core.mail import send_mail
from realtime import publish
send_mail("a", "b", "c@example.com", ["d@example.com"])
print(publish("/orders/mailed", "real").seq)
"""

TESTS = """
from django.db import transaction
from django.test import TestCase, TransactionTestCase
from realtime import Position, PublishRefused, publish

class InATestCase(TestCase):
    def test_it(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            self.assertIsNone(publish("/orders/1", "of a test"))
        self.assertEqual(len(callbacks), 1)

    def test_what_is_refused(self):
        for wrong in (("orders/1", "x"), ("/orders/1", "x" * (1 << 20) + "x")):
            with self.assertRaises(PublishRefused):
                publish(*wrong)

class WithTransactions(TransactionTestCase):
    def test_it(self):
        self.assertEqual(publish("/orders/1", "of a test"), Position(0, 0))
        with transaction.atomic():
            self.assertIsNone(publish("/orders/1", "of a test"))
        with self.assertRaises(PublishRefused):
            publish("/orders/1", "x" * (1 << 20) + "x")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project with a test of its own."""
    run(tmp_path, "-m", "django", "startproject", "shop", ".")
    with (tmp_path / "shop" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (tmp_path / "shop" / "tests.py").write_text(TESTS)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """What it printed, once it has ended well; nothing of this repository's settings but the packages."""
    names = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--ds=shop.settings", "--rootdir=.", "shop/tests.py")


@pytest.mark.slow
@pytest.mark.parametrize("runner", [("manage.py", "test"), PYTEST], ids=["django", "pytest"])
def test_a_projects_tests_need_no_sidecar_and_reach_none(project: Path, sidecar: Sidecar, runner: Any) -> None:
    """Outside of a test run the same settings reach it."""
    assert "3" in run(project, *runner)
    with tapped(sidecar, project / "c.sock") as asked:
        run(project, *runner)
        assert asked == []
        run(project, "manage.py", "shell", "-c", "from realtime import publish; publish('/orders/1', 'real')")
        assert ("publish", 1) in asked
    with Control(sidecar.control) as control:
        assert control.snapshot("/orders/1")["message"]["seq"] == 1


def test_the_mail_backend_in_memory_makes_no_test_run(project: Path, sidecar: Sidecar) -> None:
    """Development machines have it, and it makes ``mail.outbox`` with the first mail that is sent."""
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"\n')
        settings.write(f'REALTIME = {{"CONTROL": "{sidecar.control}"}}\n')
    assert run(project, "manage.py", "shell", "-v0", "-c", MAILS).split() == ["1"]


@pytest.mark.django_db(transaction=True)
def test_the_setting_wins_and_a_wrong_one_is_an_error(sidecar: Sidecar, settings: Any) -> None:
    """Also in a test run, as in this one."""
    settings.REALTIME = {"CONTROL": sidecar.control, "BACKEND": "sidecar"}
    sent = publish("/a/b", "x")
    assert sent is not None
    assert sent.epoch > 0
    settings.REALTIME = {"CONTROL": sidecar.control}
    assert publish("/a/b", "x") == (0, 0)
    assert checks.check_publishing() == []
    settings.REALTIME = {"BACKEND": "dumy", "ON_FAILURE": "ignore"}
    assert [error.id for error in checks.check_publishing()] == ["realtime.E020"] * 2
    with pytest.raises(ImproperlyConfigured, match="sidecar, memory, dummy, not 'dumy'"):
        publish("/a/b", "x")
