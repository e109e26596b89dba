"""A headless Chromium, and a small web server for pages that need no Django."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS, ROOT, new_context
from tests.support.waiting import PATIENCE_SECONDS

expect.set_options(timeout=PATIENCE_SECONDS * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module: while Playwright runs, its thread has an event loop that other tests would trip over."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: a test's output is its own."""


@pytest.fixture(scope="module")
def files() -> Iterator[str]:
    """The address of a web server that serves this repository's files."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(ROOT)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Browser, files: str) -> Iterator[Page]:
    """An empty page of that server; a script's fault that nobody caught fails the test."""
    context = new_context(browser)
    empty = context.new_page()
    faults: list[str] = []
    empty.on("pageerror", lambda error: faults.append(str(error)))
    empty.goto(f"{files}/tests/browser/empty.html")
    yield empty
    context.close()
    assert not faults, faults
