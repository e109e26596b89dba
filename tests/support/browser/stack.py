"""Everything that `runrealtime` starts, in a folder of its own and on free ports, with the demonstration's users."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from django.conf import settings
from django.db import connections
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PageTimeout

from fastpath.client.publisher.publisher import Publisher
from tests.support.browser.chromium import new_context
from tests.support.ports import free_port
from tests.support.processes import command_line, descendants
from tests.support.realtime.server import ROOT, Program

ALIAS = "running"
"""The name under which a test's process reaches the running site's database."""


class Stack:
    """``with Stack("--demo") as stack:``; without ``--demo`` there is no Spark, and the test publishes."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._open = ExitStack()

    def __enter__(self) -> Self:
        folder = self._open.enter_context(tempfile.TemporaryDirectory())
        self.database = Path(folder) / "db.sqlite3"
        self._environment = {
            "REALTIME_VAR": folder,
            "REALTIME_DATABASE": str(self.database),
            "FASTPATH_CONTROL": str(Path(folder) / "fastpath.sock"),
            "FASTPATH_LISTEN": ",".join(
                f"{scheme}://127.0.0.1:{free_port()}" for scheme in ("clients", "publishers", "mqtt")
            ),
        }
        self.manage("migrate", "-v0")
        self.manage("realtime_demo")
        argv = [sys.executable, "manage.py", "runrealtime", "--port", str(free_port()), *self._arguments]
        self.program = self._open.enter_context(
            Program(argv, self._environment, r"Ctrl-C ends everything", ready_seconds=40)
        )
        self.url = self._said(r"board +(\S+)/\n")
        self.client_url = self._said(r"WebSocket +(\S+)\n")
        self.mqtt = self._said(r"MQTT +(\S+)\n")
        self.publishers = self._said(r"publishers +(\S+)\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def manage(self, *arguments: str) -> str:
        """What a management command prints."""
        environment = dict(os.environ) | self._environment
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def spark(self) -> set[int]:
        """The processes of the demonstration's Spark as they are now: it is started again if it ends."""
        ours = descendants(self.program.process.pid)
        drivers = {pid for pid in ours if b"spark.jobs.live" in command_line(pid)}
        assert drivers, self.program.output
        return drivers.union(*map(descendants, drivers))

    @property
    def sidecar_pid(self) -> int:
        """Of the sidecar that runs now: it says so itself each time it starts."""
        return int(re.findall(r'ready \{.*"pid": (\d+)', self.program.output)[-1])

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """A process and its children, which neither run nor end."""
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        for one in pids:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in pids:
                with suppress(ProcessLookupError):  # the watchdog ends a worker that hangs for long
                    os.kill(one, signal.SIGCONT)

    @contextmanager
    def orm(self) -> Iterator[str]:
        """Inside, ``.using(alias)`` reaches the running site's database."""
        # Playwright's event loop runs in this thread, but nothing of it while Django's call does.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        connections.databases[ALIAS] = settings.DATABASES["default"] | {"NAME": self.database}
        try:
            yield ALIAS
        finally:
            connections[ALIAS].close()
            del connections[ALIAS]
            del connections.databases[ALIAS]
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]

    def feed(self) -> Publisher:
        """A publisher with the right of the Spark job."""
        return Publisher(self.publishers, self.manage("realtime_token", "spark").strip())

    def _said(self, pattern: str) -> str:
        found = re.search(pattern, self.program.output)
        assert found is not None, self.program.output
        return found[1]


def sign_in(browser: Browser, stack: Stack, user: str, width: int = 1400, path: str = "/") -> Page:
    """A page of a signed-in user, in a context of its own."""
    context = new_context(browser, viewport={"width": width, "height": 900})
    page = context.new_page()
    told: list[str] = []
    page.on("requestfailed", lambda request: told.append(f"{request.url}: {request.failure}"))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("response", lambda answer: told.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
    page.goto(f"{stack.url}/accounts/login/?next={path}")
    page.fill("#id_username", user)
    page.fill("#id_password", "demo")
    page.click("button.main")
    try:
        page.wait_for_selector("html[data-connection]")
    except PageTimeout as error:
        raise AssertionError(f"{page.url} opened no connection; {told}; {stack.program.output[-2000:]}") from error
    return page
