"""The apps in another Django project, made of the blocks of docs/develop/django.md as they are printed there."""

from __future__ import annotations

import json
import os
import posixpath
import re
import sqlite3
import sys
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.guide import Project, one, read
from tests.support.realtime.server import Program
from tests.support.waiting import PATIENCE_SECONDS, until

PLAIN_STORAGE = "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"
RULES_IMPORT = "from entitlement.admin import GroupRules\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A new project with the blocks of the guide, migrated."""
    made = Project(tmp_path)
    made.migrate()
    return made


def status(url: str) -> int:
    """What a page answers, after its redirects."""
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
        return int(answer.status)


def test_every_block_names_its_file_or_is_for_the_shell() -> None:
    """So that none is left out of the project by mistake."""
    files = {block.file for block in read("docs/develop/django.md") if block.file}
    assert files == {f"mysite/{name}.py" for name in ("settings", "urls", "asgi", "production")} | {
        "templates/order.html"
    }


def test_one_command_runs_it_and_it_publishes(project: Project) -> None:
    """Their settings, URLs and ASGI application; our supervisor, which makes the socket's folder for one user alone."""
    with project.running() as site:
        assert (project.folder / "var").stat().st_mode & 0o777 == 0o700
        assert set(site.links()) == {"web", "admin", "monitoring", "console"}
        assert [status(site.links()[page]) for page in ("admin", "monitoring", "console")] == [200] * 3, "its login"
        assert status(site.url + "/order/") == 200
        for path in ("/nowhere", "/metrics"):  # what is ours is below our prefix
            with pytest.raises(urllib.error.HTTPError, match="404"):
                status(site.url + path)
        until(lambda: "GET /nowhere" in site.output)
        assert site.output.count("Not Found: /nowhere") == 1, "Django's handler and Daphne's would both write it"
        assert project.shell("from realtime import publish; print(publish('/orders/all', '42').seq)").strip() == "1"
        check = project.manage("check", check=False)
        assert (check.returncode, "realtime." in check.stderr) == (0, False), check.stderr


def test_it_can_be_taken_out_again(tmp_path: Path) -> None:
    """With nothing left in the database of the project: neither a table nor a trigger on its own ones."""
    project = Project(tmp_path)
    project.migrate()

    def ours() -> int:
        with closing(sqlite3.connect(tmp_path / "db.sqlite3")) as database:
            query = """SELECT COUNT(*) FROM sqlite_master
                WHERE type = 'trigger' OR name LIKE 'realtime%' OR name LIKE 'entitlement%'"""
            return int(database.execute(query).fetchone()[0])

    assert ours() > 20
    for command in one("docs/develop/django.md", "sh", "realtime zero").split("&&"):
        program, *words = command.split()
        assert program == "python"
        project.run(*words)
    assert ours() == 0


@pytest.mark.parametrize("field", ["AutoField", pytest.param("BigAutoField", marks=pytest.mark.slow)])
def test_the_projects_kind_of_keys_asks_for_no_migration_of_the_apps(tmp_path: Path, field: str) -> None:
    """Else `makemigrations` of the project would write files into these packages."""
    project = Project(tmp_path, f'DEFAULT_AUTO_FIELD = "django.db.models.{field}"')
    done = project.manage("makemigrations", "--check", "--dry-run", check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "No changes detected"), done.stdout + done.stderr


SHOWN = """
from django.contrib import admin
from django.contrib.auth.models import Group
pages = admin.site.get_model_admin(Group) if admin.site.is_registered(Group) else None
print(type(pages).__name__, pages and [inline.__name__ for inline in pages.get_inlines(None, Group(pk=1))])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "admin", "shown"),
    [
        ("last", "", "GroupAdmin ['RuleInline']"),
        ("first", "OWN", "TeamAdmin []"),
        ("last", "OWN", "TeamAdmin []"),
        ("first", "admin.site.unregister(Group)", "NoneType None"),
        ("first", "GUIDE", "TeamAdmin ['RuleInline']"),
        ("last", "GUIDE", "TeamAdmin ['RuleInline']"),
    ],
)
def test_the_projects_own_page_of_groups_stays(tmp_path: Path, app: str, admin: str, shown: str) -> None:
    """Its app comes before or after, and takes the rules where it wants them, as docs/develop/entitlement.md says."""
    apps = '["teams", *INSTALLED_APPS]' if app == "first" else '[*INSTALLED_APPS, "teams"]'
    project = Project(tmp_path, f"INSTALLED_APPS = {apps}")
    (tmp_path / "teams").mkdir()
    guide = one("docs/develop/entitlement.md", "python", "class TeamAdmin")
    own = guide.replace("GroupRules, ", "").replace('"rule_count"', "").replace(RULES_IMPORT, "")
    head = "from django.contrib import admin\nimport django.contrib.auth.admin\n"
    text = {"OWN": own, "GUIDE": guide}.get(admin, f"{head}from django.contrib.auth.models import Group\n{admin}\n")
    project.append("teams/__init__.py", "")
    project.append("teams/admin.py", text)
    project.migrate()
    assert project.shell(SHOWN).strip() == shown


VISITS = """
from django.contrib.auth.models import User
from django.test import Client
page = Client(headers={"host": "localhost"})
print(page.get("/realtime/console/")["Location"])
page.force_login(User.objects.create_superuser("root"))
print([page.get(f"/realtime/{name}/").status_code for name in ("monitoring", "monitoring/clients", "console")])
"""


def test_a_project_without_the_admin_has_the_pages(tmp_path: Path) -> None:
    project = Project(tmp_path, 'INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "django.contrib.admin"]')
    urls = (tmp_path / "mysite/urls.py").read_text()
    lines = [line for line in urls.splitlines() if "admin" not in line]
    (tmp_path / "mysite/urls.py").write_text("\n".join(lines))
    project.migrate()
    assert project.shell(VISITS).split("\n")[:2] == ["/accounts/login/?next=/realtime/console/", "[200, 200, 200]"]


LOGINS = """
from django.contrib.auth.views import LoginView
from django.test import Client
from django.urls import clear_url_caches, path
from mysite import urls
page = Client(headers={"host": "localhost"})
for added in ([], [path("accounts/login/", LoginView.as_view())]):
    urls.urlpatterns += added
    clear_url_caches()
    print(*(page.get(f"/realtime/{name}/")["Location"] for name in ("monitoring", "console")))
"""


def test_who_is_not_signed_in_is_sent_to_a_login_that_is_there(tmp_path: Path) -> None:
    """The admin's in a new project, until the project has one where Django looks for it."""
    project = Project(tmp_path)
    found = project.shell(LOGINS).split()
    assert found == [
        f"{login}?next=/realtime/{page}/"
        for login in ("/admin/login/", "/accounts/login/")
        for page in ("monitoring", "console")
    ]


AUTHENTICATOR = """
from django.apps import apps
from rest_framework.authentication import BaseAuthentication

assert apps.ready, "the ready() of all apps comes first"


class Badges(BaseAuthentication):
    def authenticate(self, request):
        return None
"""


def test_the_projects_authenticators_are_not_imported_before_its_apps_are_ready(tmp_path: Path) -> None:
    """They may rely on what the ready() of an app sets up."""
    project = Project(tmp_path, 'REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": ["mysite.badges.Badges"]}')
    (tmp_path / "mysite/badges.py").write_text(AUTHENTICATOR)
    project.migrate()
    found = project.shell(
        "from realtime.api import token_authenticators as all; print(*(one.__name__ for one in all()))"
    )
    assert found.strip() == "Badges SessionAuthentication"


@pytest.mark.slow
def test_the_parts_under_another_supervisor(project: Project) -> None:
    """The guide's commands: the sidecar has the derived secret, and `check` would say if it had another."""
    project.shell("from django.contrib.auth.models import User; User.objects.create_user('ann')")
    project.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    commands = ["sh", "-e", "-c", one("docs/develop/django.md", "sh", "exec python -m fastpath")]

    def program(argv: list[str], ready: str) -> Program:
        return Program(argv, {"PATH": path}, ready, folder=project.folder, base=project.environment)

    with program(commands, r"ready \{") as sidecar:
        with program([sys.executable, "manage.py", "realtime_agent"], ""):
            token = project.manage("realtime_token", "ann").stdout.strip()
            with Control(project.folder / "var" / "fastpath.sock") as control:
                until(lambda: control.hello()["generation"] is not None, 30)
                assert control.snapshot("/a/b", token)["status"] == "denied"
                assert project.manage("check").stdout.startswith("System check identified no issues")
        assert "Traceback" not in sidecar.output
    commands[-1] = commands[-1].replace('"$(python', '"another $(python')
    agent = [sys.executable, "manage.py", "realtime_agent"]
    with (
        program(commands, r"ready \{"),
        program(agent, ""),
        Control(project.folder / "var" / "fastpath.sock") as control,
    ):
        until(lambda: control.hello()["generation"] is not None, 30)
        refused = project.manage("check", check=False)
        assert (refused.returncode, "realtime.E013" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_the_secret_of_keys_is_none(project: Project) -> None:
    """Where keys sign, the command says what the sidecar is given instead."""
    project.append("mysite/settings.py", 'REALTIME = {"TOKEN_KEYS": BASE_DIR / "keys.json"}')
    project.manage("realtime_keys", "--new", "EdDSA")
    done = project.manage("realtime_keys", "--secret", check=False)
    assert (done.returncode, "FASTPATH_TOKEN_KEYS" in done.stderr, "keys.public.json" in done.stderr) == (1, True, True)


IMPORT = re.compile(
    r"""^(?:import|export)\b[^;]*?["'](\.{1,2}/[^"']+)["'];|^import\(["'](\.{1,2}/[^"']+)["']\)""", re.MULTILINE
)


def imports(folder: Path, manifest: dict[str, str]) -> dict[str, set[str]]:
    """What each module of the client that has a name by its content imports, as names in the static folder."""
    found = {}
    for name, hashed in manifest.items():
        if name.startswith("realtime/") and name.endswith(".js") and "/vendor/" not in name:
            text = (folder / hashed).read_text(encoding="utf-8")
            beside = posixpath.dirname(name)
            found[name] = {posixpath.normpath(posixpath.join(beside, one or two)) for one, two in IMPORT.findall(text)}
    return found


PAGES = """
import re
import sqlite3
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
client = Client(headers={"host": "localhost"})
root = get_user_model().objects.create_superuser("root")
for name in ("console", "console_http", "monitoring", "monitoring_clients", "monitoring_subjects", "monitoring_trace"):
    url = reverse("realtime:" + name)
    assert client.get(url.removeprefix("/app"))["Location"].startswith("/welcome/?next=/app/realtime/")
    client.force_login(root)
    answer = client.get(url.removeprefix("/app"))
    assert answer.status_code == 200, url
    print(*re.findall(r'(?:href|src|action)="([^"]+)', answer.content.decode()), sep="\\n")
    client.logout()
"""


@pytest.mark.slow
def test_pages_below_a_prefix_with_static_files_named_by_content(tmp_path: Path) -> None:
    """Everything that they name is below it, and was collected; the login is the project's."""
    project = Project(tmp_path)
    project.append(
        "mysite/production.py", 'FORCE_SCRIPT_NAME = "/app"\nLOGIN_URL = "/welcome/"\nALLOWED_HOSTS = ["localhost"]'
    )
    project.migrate()
    production = ("--settings", "mysite.production")
    project.manage("collectstatic", "--noinput", "-v0", *production)
    named = set(project.manage("shell", "-v0", "-c", PAGES, *production).stdout.split())
    assert all(address.startswith(("/app/", "?", "#")) for address in named), named
    files = {address.removeprefix("/app/static/") for address in named if address.startswith("/app/static/")}
    assert len(files) >= 8
    manifest = json.loads((tmp_path / "static" / "staticfiles.json").read_text())["paths"]
    assert files <= set(manifest.values())


LOOKING = f"""
from {PLAIN_STORAGE.rpartition(".")[0]} import ManifestStaticFilesStorage

class Looking(ManifestStaticFilesStorage):
    support_js_module_import_aggregation = True
"""


@pytest.mark.parametrize("storage", ["mysite.storage.Looking", pytest.param(PLAIN_STORAGE, marks=pytest.mark.slow)])
def test_the_modules_under_names_by_content(tmp_path: Path, storage: str) -> None:
    """The client imports nothing; modules do, by such names where a project has Django look for what they import."""
    project = Project(tmp_path)
    project.append("mysite/storage.py", LOOKING)
    project.append("mysite/production.py", f'STORAGES["staticfiles"]["BACKEND"] = "{storage}"')
    production = ("--settings", "mysite.production")
    project.manage("collectstatic", "--noinput", "-v0", *production)
    manifest = json.loads((tmp_path / "static" / "staticfiles.json").read_text())["paths"]
    found = imports(tmp_path / "static", manifest)
    assert found["realtime/client.js"] == set()
    assert len(found["realtime/client/client.js"]) >= 6
    assert len(set().union(*found.values())) > 20
    for names in found.values():
        expected = set(manifest) if storage == PLAIN_STORAGE else set(manifest.values())
        assert names <= expected
        assert all((tmp_path / "static" / name).is_file() for name in names)
    project.append("mysite/production.py", 'REALTIME = {"CONTROL": BASE_DIR / "none.sock"}')
    told = project.manage("check", "--deploy", *production, check=False)
    assert "aggregation" not in told.stderr
