"""What is worked out aside: its answer comes back, what it imported and its process do not stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.realtime.server import ROOT

PROGRAM = """
import os, sys
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
import django
django.setup()
from realtime.process.aside import aside

def question():
    import wave
    sys.stderr.write("asked\\n")
    return [["process", os.getpid()], ["wave", "wave" in sys.modules]]
"""


def said(program: str) -> tuple[list[str], list[str]]:
    """The lines on stdout and stderr of a program that has a question."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_what_it_imports_does_not_stay() -> None:
    """Asked twice, by two processes that are both gone; what was printed before is not printed again."""
    out, errors = said("""
print("before")
answers = [dict(aside(question)) for _ in range(2)]
print(len({os.getpid(), *(answer["process"] for answer in answers)}), all(answer["wave"] for answer in answers))
print("wave" in sys.modules)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
""")
    assert out == ["before", "3 True", "False", "no child"]
    assert errors == ["asked", "asked"]


@pytest.mark.parametrize(
    "before",
    [
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "from django.db import connection; connection.ensure_connection()",
    ],
)
def test_a_process_that_cannot_be_copied_answers_itself(before: str) -> None:
    """It has another thread, or a connection that a copy would use as well."""
    out, errors = said(f"{before}\nprint(dict(aside(question))['process'] == os.getpid())")
    assert (out, errors) == (["True"], ["asked"])


def test_what_fails_raises_here() -> None:
    """As if it had been called here, with its trace told once."""
    out, errors = said("""
class Refused(Exception):
    status = 3
def refuses():
    raise Refused("no")
try:
    aside(refuses)
except Refused as error:
    print(error, error.status)
""")
    assert (out, errors) == (["no 3"], [])


def test_the_checks_of_runrealtime_leave_nothing(tmp_path: Path) -> None:
    """Neither the project's addresses nor what they import: the web server has its own."""
    program = """
from django.core.management import load_command_class
command = load_command_class("realtime", "runrealtime")
command.check()
print("probe.urls" in sys.modules, "rest_framework.views" in sys.modules)
"""
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "__init__.py").write_text("")
    (tmp_path / "probe" / "urls.py").write_text("import sys\nsys.stderr.write('addresses\\n')\nurlpatterns = []\n")
    settings = (
        'INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",'
        ' "realtime", "entitlement"], ROOT_URLCONF="probe.urls", SECRET_KEY="s" * 50, BASE_DIR=os.getcwd(),'
        ' TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}], DATABASES='
    )
    path = f"import os, sys; sys.path.append({str(tmp_path)!r})"
    text = PROGRAM.replace("DATABASES=", settings, 1).replace("import os, sys", path)
    done = subprocess.run(
        [sys.executable, "-c", text + program],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), "addresses" in done.stderr) == (["False", "False"], True), done.stderr
