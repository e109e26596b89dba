"""What the documentation prints runs as it is printed: its blocks are copied out of the pages, and nothing is added."""

from __future__ import annotations

import ast
import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.sync.client import ClientConnection, connect

from tests.support.browser.chromium import new_context
from tests.support.guide import Project, Running, one
from tests.support.realtime.everything import environment
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PRESENCE = "docs/develop/presence.md"
ADDRESS = "ws://127.0.0.1:8800/ws"
"""The one thing that is not as printed: tests listen on free ports."""


class Site:
    """A project of the guide's blocks, running, with the settings that presence.md names and two users."""

    def __init__(self, project: Project, running: Running) -> None:
        self.project = project
        self.running = running

    def token(self, user: str) -> str:
        """A token of a user, as for a script."""
        return self.project.manage("realtime_token", user).stdout.strip()

    @contextmanager
    def client(self, user: str) -> Iterator[ClientConnection]:
        """A connection of a user's own program."""
        with connect(self.running.client_url) as client:
            client.send(json.dumps({"op": "connect", "id": 1, "token": self.token(user)}))
            assert json.loads(client.recv(timeout=PATIENCE_SECONDS))["user"] == user
            yield client

    def program(self, block: str, last: str) -> Program:
        """A block and the line that calls what it defines, as a program."""
        script = block.replace(ADDRESS, self.running.client_url) + last
        return Program(
            [sys.executable, "-c", script], {}, "", folder=self.project.folder, base=self.project.environment
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all: each test has subjects of its own."""
    project = Project(tmp_path_factory.mktemp("guide"))
    room = one("docs/develop/django.md", "html", "templates/order.html").replace(
        "</script>", one(PRESENCE, "js", "client.presence") + "</script>"
    )
    (project.folder / "templates" / "room.html").write_text(room)
    project.append("mysite/urls.py", 'urlpatterns += [path("room/", TemplateView.as_view(template_name="room.html"))]')
    project.manage("migrate", "-v0")
    name, _, value = one(PRESENCE, "sh", "FASTPATH_PRESENCE").strip().partition("=")
    with project.running(**{name: value.strip("'")}) as running:
        project.shell(
            "from django.contrib.auth.models import User; from entitlement.models import Rule\n"
            "ann, bob = User.objects.create_user('ann'), User.objects.create_user('bob')\n"
            "Rule.objects.create(everyone=True, pattern='/chat/**')\n"
            "Rule.objects.create(user=bob, pattern='/prices/**')\n"
            "Rule.objects.create(user=ann, pattern='/prices/**', action='publish')\n"
            "User.objects.create_superuser('root', password='demo')\n"
        )
        yield Site(project, running)


class Console:
    """What a page writes to its console, and the faults that nobody caught."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._lines: list[str] = []
        page.on("console", lambda message: self._lines.append(message.text))
        page.on("pageerror", lambda error: self._lines.append(f"fault: {error}"))

    def line(self, beginning: str) -> str:
        """The first that begins so; empty while there is none."""
        self._page.evaluate("0")  # events arrive while Playwright is asked something
        return next((line for line in self._lines if line.startswith(beginning)), "")

    def wait(self, beginning: str) -> str:
        """The first that begins so; what there was instead is told."""
        try:
            return until(lambda: self.line(beginning), 30)
        except AssertionError:
            raise AssertionError(f"the page never wrote {beginning!r}, but {self._lines}") from None


def sign_in(page: Page, site: Site) -> None:
    """As the superuser, in the project's own admin."""
    page.goto(f"{site.running.url}/admin/login/")
    page.fill("#id_username", "root")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    page.wait_for_selector("#user-tools")


def test_a_message_on_a_page_of_a_new_project(site: Site, browser: Browser) -> None:
    """docs/develop/django.md from the first block to the last: install, listen, allow, publish."""
    context = new_context(browser)
    page = context.new_page()
    console = Console(page)
    page.goto(f"{site.running.url}/order/")
    console.wait("denied")
    site.project.shell(one("docs/develop/django.md", "python", "Rule.objects.create"))
    console.wait("granted")
    site.project.shell(one("docs/develop/django.md", "python", "publish("))
    expect(page.locator("#state")).to_have_text("shipped")
    expect(page.locator("#parcels")).to_have_text("2 parcels")
    sign_in(page, site)
    console = Console(page)
    page.goto(f"{site.running.url}/order/")
    expect(page.locator("#state")).to_have_text("shipped")
    assert "user: root" in console.line("connected")
    context.close()


def test_who_signs_out_and_in_again_finds_the_page_live(site: Site, browser: Browser) -> None:
    """In another tab, which makes another CSRF token than that of the page."""
    context = browser.new_context()
    other, page = context.new_page(), context.new_page()
    sign_in(other, site)
    console = Console(page)
    page.goto(f"{site.running.url}/order/")
    assert "user: root" in console.wait("connected")
    other.click("#logout-form button")
    console.wait("disconnected")
    sign_in(other, site)
    console = Console(page)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert "user: root" in console.wait("connected")
    context.close()


def test_presence_in_a_page(site: Site, browser: Browser) -> None:
    """The fragment of presence.md in the page of django.md."""
    context = new_context(browser)
    page = context.new_page()
    console = Console(page)
    page.goto(f"{site.running.url}/room/")
    console.wait("[] and 0 without a name")
    with site.client("bob") as bob:
        bob.send('{"op":"subscribe","id":2,"subjects":["/chat/room1"]}')
        console.wait("bob join")
    console.wait("bob leave")
    assert console.line("fault") == ""
    context.close()


def test_presence_in_python(site: Site) -> None:
    """First who is there, then who comes and goes."""
    block = one(PRESENCE, "python", "client.presence")
    with site.program(block, f"\nasyncio.run(main({site.token('ann')!r}))") as program:
        until(lambda: "without a name" in program.output, 30)
        with site.client("bob") as bob:
            bob.send('{"op":"subscribe","id":2,"subjects":["/chat/room1"]}')
            until(lambda: "bob join" in program.output)
        until(lambda: "bob leave" in program.output)


def test_interactive_publishing_in_python(site: Site) -> None:
    """What is wanted is published, and nothing else."""
    block = one(PRESENCE, "python", "client.advertise")
    with site.program(block, f"\nasyncio.run(main({site.token('ann')!r}))"), site.client("bob") as bob:
        bob.send('{"op":"subscribe","id":2,"subjects":["/prices/IBM"]}')
        until(lambda: "193.20" in str(bob.recv(timeout=3 * PATIENCE_SECONDS)), 30)


def test_the_python_client_of_the_readme(site: Site) -> None:
    """At the prompt of ``python -m asyncio``, where ``await`` needs no function around it."""
    block = one("README.md", "python", "fastpath.client import connect")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    prompt = (
        "import asyncio, types\n"
        f"code = compile({block.replace(ADDRESS, site.running.client_url)!r}, 'README', 'exec', {flags})\n"
        f"asyncio.run(types.FunctionType(code, {{'token': {site.token('root')!r}}})())"
    )
    with site.program("", prompt) as program:
        until(lambda: "2:1 {} " in program.output, 30)


def test_the_four_steps_of_the_readme(tmp_path: Path, browser: Browser) -> None:
    """In a copy of this checkout: two views, a page, their addresses, a hangup, a rule."""
    for name in ("fastpath", "realtime", "entitlement", "spark", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", tmp_path)
    base = environment(tmp_path / "var")

    def manage(*arguments: str) -> None:
        subprocess.run([sys.executable, "manage.py", *arguments], cwd=tmp_path, env=base, check=True, timeout=60)

    manage("migrate", "-v0")
    argv = [sys.executable, "manage.py", "runrealtime", "--port", "0"]
    ready = r"board +(http://[^/\s]+)(?s:.*)Ctrl-C ends everything"
    with Program(argv, {}, ready, 40, folder=tmp_path, base=base) as program:
        (tmp_path / "hello.py").write_text(one("README.md", "python", "def score"))
        (tmp_path / "templates" / "hello.html").write_text(one("README.md", "html", "no score yet"))
        with (tmp_path / "realtime" / "demo" / "urls.py").open("a") as urls:
            urls.write(one("README.md", "python", "urlpatterns +="))
        program.process.send_signal(signal.SIGHUP)
        context = new_context(browser)
        page, other = context.new_page(), context.new_page()
        url = program.found[1]
        until(lambda: _status(f"{url}/hello/") == 200, 30)
        page.goto(f"{url}/hello/")
        manage(
            "shell", "-v0", "-c",
            "from entitlement.models import Rule; Rule.objects.create(everyone=True, pattern='/scores/**')",
        )  # fmt: skip
        other.goto(f"{url}/hello/1/")
        expect(page.locator("#score")).to_have_text("1:0 (somebody)")
        other.goto(f"{url}/hello/2/")
        expect(page.locator("#score")).to_have_text("2:0 (somebody)")
        context.close()


def _status(url: str) -> int:
    """What the web server answers; 0 while it is away."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
