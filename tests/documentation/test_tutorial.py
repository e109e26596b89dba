"""The tutorial from an empty folder to its end: one reader types all blocks of four parts, and sees what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS, new_context
from tests.support.documentation.databases import SETTINGS, served
from tests.support.documentation.reader import SECONDS_MAX, Reader
from tests.support.guide import Block, every
from tests.support.wheel import build

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.spark]

PARCEL = "/parcels/ann/42/"


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Debian's."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """With an empty folder."""
    with Reader(tmp_path, build(tmp_path / "dist")) as one:
        yield one


def window(browser: Browser) -> Page:
    """One with cookies of its own."""
    context = new_context(browser)
    context.set_default_timeout(SECONDS_MAX * 1000)
    return context.new_page()


def sign_in(browser: Browser, reader: Reader, user: str) -> Page:
    """A window of a user, at the address that part 2 names."""
    page = window(browser)
    page.goto(f"{reader.url}/accounts/login/?next={PARCEL}")
    page.fill("#id_username", user)
    page.fill("#id_password", "demo")
    page.click("button")
    return page


@pytest.mark.timeout(3000)
def test_the_tutorial(reader: Reader, browser: Browser) -> None:
    """Each part goes on with what the one before has left."""
    live_page(reader, browser)
    ann = rights(reader, browser)
    guaranteed_delivery(reader, ann)
    spark(reader, ann)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("backend", ["postgresql", "mysql"])
def test_the_tutorial_on_another_database(tmp_path: Path, browser: Browser, backend: str) -> None:
    """Whose settings are the first that the reader types; MariaDB has no outbox, which part 3 is about."""
    packages = str(Path(sys.prefix) / {"postgresql": "postgres", "mysql": "mariadb"}[backend])
    settings = SETTINGS[backend]._replace(file="parcels/settings.py")
    with served(backend) as more, Reader(tmp_path, build(tmp_path / "dist"), packages, **more) as reader:
        live_page(reader, browser, settings)
        ann = rights(reader, browser)
        if backend == "postgresql":
            guaranteed_delivery(reader, ann)


def live_page(reader: Reader, browser: Browser, *settings: Block) -> None:
    """Part 1: a page that is denied, allowed, and moves; a second one begins with the snapshot."""
    folder, *others = every("docs/start/tutorial/live-page.md")
    reader.opens([folder, *settings, *others])
    reader.goes_on()
    page, other = window(browser), window(browser)
    page.goto(f"{reader.url}{PARCEL}")
    reader.sees(page)
    reader.goes_on()
    reader.sees(page)
    reader.goes_on()
    reader.sees(page)
    other.goto(f"{reader.url}{PARCEL}")
    other.get_by_text("Hannover", exact=True).wait_for()
    for one in (page, other):
        one.context.close()


def rights(reader: Reader, browser: Browser) -> Page:
    """Part 2: ann sees her parcel, and bob while he is in the depot."""
    reader.opens(every("docs/start/tutorial/rights.md"))
    reader.goes_on()
    ann = sign_in(browser, reader, "ann")
    reader.sees(ann)
    bob = sign_in(browser, reader, "bob")
    reader.sees(bob)
    reader.goes_on()
    reader.sees(bob)
    reader.goes_on()
    reader.sees(bob)
    reader.goes_on()
    reader.sees(ann)
    reader.sees(bob)
    bob.context.close()
    return ann


def guaranteed_delivery(reader: Reader, ann: Page) -> None:
    """Part 3: without a sidecar, with one that is killed, and without a network."""
    reader.opens(every("docs/start/tutorial/guaranteed-delivery.md"))
    reader.stops_the_server()
    reader.goes_on()
    ann.reload()
    reader.sees(ann)
    with reader.meanwhile(r"(?m)^3$"):
        reader.goes_on()
    reader.sees(ann)
    ann.context.set_offline(True)
    reader.goes_on()
    assert "Ulm" not in ann.inner_text("body")
    ann.context.set_offline(False)
    reader.sees(ann)
    reader.goes_on()


def spark(reader: Reader, ann: Page) -> None:
    """Part 4: a job that counts, and counts right after it was killed."""
    reader.opens(every("docs/start/tutorial/spark.md"))
    reader.goes_on()
    ann.reload()
    reader.sees(ann)
    for _ in range(2):
        reader.goes_on()
        reader.sees(ann)
    reader.goes_on()
