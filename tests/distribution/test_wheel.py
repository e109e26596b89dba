"""The wheel in somebody else's project: built here, installed without this checkout, set up by the guide's blocks."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.support.edge.wire import WireClient
from tests.support.guide import Project, Running
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.wheel import PROJECT, build

pytestmark = pytest.mark.slow

PACKAGES = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")

OWN = ("realtime/settings.py", "realtime/demo", "realtime/management/commands/realtime_demo.py", "tests", "tools")
"""What belongs to this repository's project and is in no wheel."""

IMPORT_ALL = """
import importlib, os, pkgutil, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                    "django.contrib.messages", "django.contrib.sessions", "realtime", "entitlement"],
    BASE_DIR=os.getcwd(), SECRET_KEY="x" * 50, ROOT_URLCONF="realtime.urls")
django.setup()
count = 0
for top in ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath"):
    package = importlib.import_module(top)
    assert not package.__file__.startswith(CHECKOUT), package.__file__
    for module in pkgutil.walk_packages(package.__path__, top + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            count += 1
assert not [name for name in sys.modules if name.startswith(("realtime.demo", "realtime.settings"))]
print(count)
"""

USERS = """
import uuid
from django.contrib.auth.models import AbstractUser
from django.db import models

class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
"""

SESSION = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
user, _ = get_user_model().objects.get_or_create(username="root", is_staff=True, is_superuser=True)
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
print(session.session_key)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``make dist`` builds it."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with the wheel, and with this one's other packages, so that none is loaded."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    interpreter = str(folder / "bin" / "python")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        interpreter,
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(argv, check=True, timeout=60)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def digests(folder: Path) -> dict[str, str]:
    """Of what was built, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_is_reproducible_and_has_one_version(wheel: Path, tmp_path: Path) -> None:
    """Two builds of the same files are the same bytes."""
    build(tmp_path)
    assert digests(wheel.parent) == digests(tmp_path)
    assert wheel.name == f"django_fastpath-{PROJECT['version']}-py3-none-any.whl"


def test_it_holds_what_is_used_and_nothing_of_this_project(wheel: Path) -> None:
    """Templates, static files, Lua, the source of the MBeans' program, licences; no demonstration."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert not {name for name in names if name.startswith(OWN)}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    kept = subprocess.run(
        ["git", "ls-files", *PACKAGES],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    missing = {
        name for name in kept if name not in names and not name.startswith((*OWN, "realtime/static/realtime/board"))
    }
    assert not missing
    licences = {"LICENSE", "NOTICE", "tools/licences/uPlot.txt"}
    assert licences <= {name.partition(".dist-info/licenses/")[2] for name in names}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_every_module_of_it_can_be_imported(python: str, tmp_path: Path) -> None:
    """Without this checkout, its settings and its demonstration."""
    script = f"CHECKOUT = {str(ROOT)!r}\n{IMPORT_ALL}"
    own = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    done = subprocess.run([python, "-c", script], cwd=tmp_path, env=kept, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def test_the_ranges_allow_what_is_pinned() -> None:
    """What the tests run with is what the metadata asks for."""
    from packaging.requirements import Requirement

    files = [ROOT / "requirements.txt", ROOT / "requirements-test.txt"]
    lines = [line for file in files for line in file.read_text().splitlines()]
    pinned = dict(line.partition(";")[0].strip().split("==") for line in lines if "==" in line and line[0] != "#")
    pinned = {name.partition("[")[0].lower(): version for name, version in pinned.items()}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(one for some in extras for one in some)]:
        asked = Requirement(text)
        assert pinned[asked.name.lower()] in asked.specifier, text


@pytest.fixture(scope="module")
def site(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Running]]:
    """The five lines of the guide, and a user model of the project's own with UUIDs for keys."""
    folder = tmp_path_factory.mktemp("project")
    more = 'INSTALLED_APPS += ["people"]\nAUTH_USER_MODEL = "people.User"\nLOGIN_URL = "/admin/login/"\n'
    project = Project(folder, more, python=python, before="### An ASGI application")
    for name, text in (("__init__.py", ""), ("models.py", USERS)):
        (folder / "people").mkdir(exist_ok=True)
        project.append(f"people/{name}", text)
    project.manage("makemigrations", "people", "-v0")
    project.manage("migrate", "-v0")
    with project.running() as running:
        yield project, running


def get(url: str, session: str = "") -> tuple[int, str, str]:
    """Status, final address and text of a page."""
    request = urllib.request.Request(url, headers={"Cookie": f"sessionid={session}"} if session else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
        return answer.status, answer.url, answer.read().decode()


def test_a_rule_a_publication_and_a_client_that_sees_it(site: tuple[Project, Running]) -> None:
    """The sidecar's own command line, too, is what the wheel installs."""
    project, running = site
    check = project.manage("check", check=False)
    assert (check.returncode, "entitlement.I001" in check.stderr) == (0, True), check.stderr
    (command,) = re.findall(r"manage\.py (entitlement_rules allow .*)`", check.stderr)
    project.manage(*[word.strip("'") for word in command.replace("/scores/**", "/orders/**").split()])
    assert "0 silenced" in (told := project.manage("check").stdout), told
    with WireClient(running.client_url) as client:
        client.ask("connect", "connected")
        client.subscribe("/orders/42")
        sent = "from realtime import publish; print(publish('/orders/42', 'shipped').seq)"
        assert project.shell(sent).strip() == "1"
        assert client.texts(1) == ["shipped"]


def test_the_pages_answer_with_all_that_they_name(site: tuple[Project, Running]) -> None:
    """For who is signed in; others are sent to the project's own login."""
    project, running = site
    session = project.shell(SESSION).strip()
    for name in ("console/", "console/http/", "monitoring/", "monitoring/clients/", "monitoring/subjects/"):
        url = f"{running.url}/realtime/{name}"
        assert get(url)[1].startswith(f"{running.url}/admin/login/?next=")
        status, _, text = get(url, session)
        assert status == 200
        named = set(re.findall(r'(?:src|href)="([^"?#]+)', text))
        assert any("/static/realtime/" in address for address in named)
        for address in named:
            assert get(urljoin(url, address), session)[0] == 200, address
    for name in ("healthz", "metrics", "api/servers/", "api/schema/", "api/stats/"):
        assert get(f"{running.url}/realtime/{name}", session)[0] == 200
    command = [str(Path(project.python).with_name("fastpath")), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert "The Fastpath sidecar" in done.stdout


OWN_SESSION = (ROOT / "tests/support/spark/own_session.py").read_text()


class Own:
    """A program of somebody's own, outside this checkout, in an environment that is activated and told no more."""

    def __init__(self, python: str, folder: Path, sidecar: Sidecar) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "own.py").write_text(OWN_SESSION)
        named = ("PYTHON", "PYSPARK", "SPARK", "FASTPATH_", "REALTIME_", "DJANGO_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(named)}
        self._base = kept | {"PATH": f"{Path(python).parent}:{kept['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
        self._argv = [python, "own.py", sidecar.publisher_url]

    def run(self, name: str, where: str, **more: str) -> Program:
        """The driver, or who asks it by Spark Connect."""
        argv = [*self._argv, name, where]
        return Program(argv, more, r"(?m)^done$|Traceback", 200, folder=self.folder, base=self._base)


@pytest.fixture(scope="module")
def own(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Own, str]]:
    """The program, and what it has said; its session goes on, also as a server of Spark Connect."""
    with Sidecar(cache_messages=200) as sidecar:
        own = Own(python, tmp_path_factory.mktemp("own"), sidecar)
        with own.run("classic", str(own.port)) as running:
            yield own, running.output


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_session_that_was_told_nothing_knows_the_format(own: tuple[Own, str]) -> None:
    """Written, read and streamed with nothing but the wheel in the environment; a mistake is told as such."""
    for said in ("read 100", "copied 100", "told True"):
        assert f"{said}\n" in own[1], own[1]


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_client_of_spark_connect_knows_it_as_well(own: tuple[Own, str]) -> None:
    """By the server, whose Python has the wheel."""
    with own[0].run("connect", f"sc://127.0.0.1:{own[0].port}") as client:
        for said in ("read 100", "copied 100", "told True"):
            assert f"{said}\n" in client.output, client.output
