"""A reader's project in production, by the pages' own blocks, with the wheel alone: each database, two servers.

Its users have a model of their own, WhiteNoise serves files that are named by their content, and a strict
Content-Security-Policy is in force. What is published is seen in a browser, and so are console and monitoring.
"""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS, new_context
from tests.support.browser.console import faults_of
from tests.support.documentation.databases import SETTINGS, served
from tests.support.edge.wire import Ended, WireClient
from tests.support.guide import Block, Project, Running, every, one
from tests.support.installed import install
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.wheel import build

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(1800)]

GUIDE = "docs/develop/django.md"
DATABASES = "docs/operate/databases.md"
SERVERS = "docs/operate/application-servers.md"
HASHED = re.compile(r"/static/[\w/]+\.[0-9a-f]{12}\.js$")
"""A script whose name says its content."""

SCREENSHOTS = os.environ.get("TEST_SCREENSHOTS", "")
"""A folder, for who wants to see the pages."""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with the wheel, and what the pages have a reader install besides."""
    wheel = build(tmp_path_factory.mktemp("dist"))
    lines = [line for block in every(SERVERS, "sh", "pip install|export") for line in block.text.splitlines()]
    lines += one(DATABASES, "sh", "psycopg").splitlines() + one(DATABASES, "sh", "PyMySQL").splitlines()
    named = [line.split()[-1].strip('"') for line in lines if line.startswith("pip install")]
    wanted = [name for name in named if name not in ("hypercorn", "granian")]
    assert {"uvicorn", "gunicorn", "whitenoise", "psycopg[binary]", "PyMySQL"} == set(wanted)
    pinned = ("-c", str(ROOT / "constraints.txt"))
    return install(tmp_path_factory.mktemp("reader") / "venv", str(wheel), *wanted, options=pinned)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class Site:
    """The project, its sidecar and what belongs to it, and how a server is started for it."""

    def __init__(self, project: Project, beside: Running, more: dict[str, str], database: str) -> None:
        self.project = project
        self.beside = beside
        self.more = more
        self.database = database

    def publish(self, *lines: str) -> None:
        """What a shell of the project does."""
        self.project.manage("shell", "-v0", "-c", "\n".join(lines), **self.more)

    @contextmanager
    def under(self, server: str) -> Iterator[str]:
        """The address of a server, started by the page's line of its name; it ends by itself."""
        port, folder = free_port(), Path(self.project.python).parent
        lines = [line for block in every(SERVERS, "sh", "pip install") for line in block.text.splitlines()]
        command = next(line for line in lines if line.startswith(f"{server} "))
        assert "8000" in command
        listen = f"clients://{self.beside.client_url.split('/')[2]},publishers://127.0.0.1:1"
        base = self.project.environment | self.more
        base |= {"PATH": f"{folder}:{os.environ['PATH']}", "FASTPATH_LISTEN": listen}
        argv = command.replace("8000", str(port)).split()
        argv[0] = str(folder / argv[0])
        with Program(argv, {}, "", folder=self.project.folder, base=base) as program:
            url = f"http://127.0.0.1:{port}"
            until(lambda: answers(f"{url}/order/") or program.process.poll() is not None, 120)
            yield url
            program.process.terminate()
            program.wait()
        assert "Traceback" not in program.output


def answers(url: str) -> bool:
    """Whether a page is there."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
            return int(answer.status) == 200
    except OSError:
        return False


def reads(project: Project, environment: dict[str, str], block: Block) -> None:
    """Type a block: a file, or commands of the project."""
    if block.file:
        project.write(block)
        return
    for line in block.text.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            environment[name] = value
        elif line.startswith("python manage.py "):
            project.manage(*line.split()[2:], **environment)
        else:
            assert line.startswith("pip install"), line


@pytest.fixture(scope="module", params=["sqlite3", "postgresql", "mysql"])
def site(request: pytest.FixtureRequest, python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Of the guide's blocks, and those of the pages about databases and servers."""
    with served(request.param) as environment:
        project = Project(tmp_path_factory.mktemp("site"), python=python)
        if request.param in SETTINGS:
            project.write(SETTINGS[request.param])
        in_order = sorted(every(SERVERS, "sh", "python manage.py|export"), key=lambda block: block.line)
        startapp, makemigrations = [block for block in in_order if "people" in block.text]
        reads(project, environment, startapp)
        for block in every(SERVERS, "", "# people/|# mysite/settings.py"):
            reads(project, environment, block)
        reads(project, environment, makemigrations)
        for block in every(SERVERS, "", "# mysite/p|<!-- templates/|// assets/"):
            reads(project, environment, block)
        # What a test has to have otherwise: where it is asked, and the sidecar's port, which is a free one.
        project.append("mysite/production.py", 'ALLOWED_HOSTS = ["127.0.0.1"]')
        policy = project.folder / "mysite" / "policy.py"
        policy.write_text(policy.read_text().replace("127.0.0.1:8800", "127.0.0.1:*"))
        first, _ = one(GUIDE, "sh", "manage.py runrealtime").splitlines()
        assert first == "python manage.py migrate"
        project.manage("migrate", "-v0", **environment)
        (static,) = [block for block in in_order if block.text.startswith("export")]
        reads(project, environment, static)
        user = "from django.contrib.auth import get_user_model; get_user_model().objects.create_superuser"
        project.manage("shell", "-v0", "-c", f"{user}('root', password='demo')", **environment)
        project.manage("shell", "-v0", "-c", one(GUIDE, "python", "Rule.objects.create"), **environment)
        with project.running("--without-web", **environment) as beside:
            yield Site(project, beside, environment, request.param)


def test_nothing_is_said_against_it(site: Site) -> None:
    """By the checks, of the database as well; nor is a migration missing."""
    done = site.project.manage("check", "--database", "default", **site.more)
    assert "no issues" in done.stdout + done.stderr
    assert "No changes" in site.project.manage("makemigrations", "--check", "--dry-run", **site.more).stdout


@pytest.mark.parametrize("server", ["gunicorn", "uvicorn"])
def test_pages_are_live(site: Site, browser: Browser, server: str) -> None:
    """The reader's own, console, monitoring, the rules; no policy refuses anything, and every file is there."""
    with site.under(server) as url:
        context = new_context(browser, viewport={"width": 1280, "height": 900})
        page = context.new_page()
        said, asked, missing = faults_of(page), list[str](), list[str]()
        page.on("response", lambda answer: (asked if answer.status < 400 else missing).append(answer.url))
        site.publish("from realtime import remove", "remove('/orders/42')")
        page.goto(f"{url}/order/")
        expect(page.locator("#state")).to_have_text("nothing yet")
        site.publish(one(GUIDE, "python", "publish("))
        expect(page.locator("#state")).to_have_text("shipped")
        expect(page.locator("#parcels")).to_have_text("2 parcels")
        files = [each for each in asked if "/static/" in each]
        assert [bool(HASHED.search(each)) for each in files] == [True] * 2, files
        # Nobody is signed in, which is no fault; a browser notes it all the same.
        assert missing[:1] == [f"{url}/realtime/token/"]
        assert [text for text in said if "401" not in text] == [], said
        said.clear()
        missing.clear()
        sign_in(page, url)
        shown(page, site, server, "console")
        page.click("#connect-button")
        expect(page.locator("html[data-connection=connected]")).to_have_count(1)
        page.fill("#names", "/orders/42")
        page.click("#subscribe button.main")
        expect(page.locator("#subscriptions")).to_contain_text("/orders/42")
        shown(page, site, server, "console-connected")
        page.goto(f"{url}/realtime/monitoring/")
        expect(page.locator("#charts canvas").first).to_be_visible()
        expect(page.locator("#banner-text")).not_to_have_text("Waiting for the first figures…")
        shown(page, site, server, "monitoring")
        page.goto(f"{url}/realtime/monitoring/clients/")
        expect(page.locator("#count")).to_contain_text("client")
        shown(page, site, server, "clients")
        page.goto(f"{url}/admin/entitlement/rule/")
        expect(page.locator("#result_list")).to_contain_text("/orders/**")
        shown(page, site, server, "rules")
        page.goto(f"{url}/order/")
        expect(page.locator("#state")).to_have_text("shipped")
        context.close()
    assert (said, [each for each in missing if "favicon" not in each]) == ([], [])


def test_rights_are_refreshed_of_a_user_whose_key_is_no_number(site: Site) -> None:
    """However the database writes a UUID: the token's client is sent away, and a new token is let in."""
    people = "from django.contrib.auth import get_user_model; people = get_user_model().objects"
    site.publish(people, "people.get_or_create(username='ann')")
    tokens = [site.project.manage("realtime_token", "ann", **site.more).stdout.strip()]
    with WireClient(site.beside.client_url) as client:
        client.ask("connect", "connected", token=tokens[0])
        client.subscribe("/orders/43")
        site.publish(people, "from realtime import refresh_rights", "refresh_rights(people.get(username='ann'))")
        with pytest.raises(Ended) as ended:
            client.texts(1)
        assert ended.value.code == 4007
    tokens.append(site.project.manage("realtime_token", "ann", **site.more).stdout.strip())
    with WireClient(site.beside.client_url) as client:
        assert client.ask("connect", "connected", token=tokens[1])["user"] == "ann"


def sign_in(page: Page, url: str) -> None:
    """As the superuser, at the login that the console sends to."""
    page.goto(f"{url}/realtime/console/")
    page.fill("#id_username", "root")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    page.wait_for_selector("#connect-button")


def shown(page: Page, site: Site, server: str, name: str) -> None:
    """Keep what is seen, for who asked for it."""
    if SCREENSHOTS:
        page.screenshot(path=f"{SCREENSHOTS}/{site.database}-{server}-{name}.png", full_page=True)
