"""Where the debug console lets tokens go, and what it shows of them; its page without Django, over a real sidecar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import ROOT, new_context
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt

pytestmark = pytest.mark.browser

ANN, BOB = (mint_jwt(user, both=["/**"]) for user in ("ann", "bob"))


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One for all tests here."""
    with Sidecar(mode="jwt", token_secret=SECRET) as running:
        yield running


@pytest.fixture
def sessions() -> list[str]:
    """The addresses from which the token of the signed-in user was fetched."""
    return []


@pytest.fixture
def page(browser: Browser, files: str, sessions: list[str]) -> Iterator[Page]:
    """The console of Ann, whose site has a sidecar that is not the one of the tests."""

    def own_token(url: str) -> str:
        sessions.append(url)
        return json.dumps({"token": ANN})

    console = new_context(browser).new_page()
    console.route("**/own-token", lambda route: route.fulfill(body=own_token(route.request.url)))
    console.goto(f"{files}/tests/browser/empty.html")
    console.set_content(html(servers=[{"url": "ws://127.0.0.1:9/ws", "weight": 100}], token_url="/own-token"))
    console.wait_for_selector('html[data-connection="idle"]')
    yield console
    console.close()


def html(**config: object) -> str:
    """The page as Django would have made it."""
    text = (ROOT / "realtime/templates/realtime/corner.html").read_text() + (
        ROOT / "realtime/templates/realtime/console.html"
    ).read_text().replace(
        '{{ config|json_script:"realtime-config" }}',
        f'<script id="realtime-config" type="application/json">{json.dumps(config)}</script>',
    )
    text = re.sub(r"{% static '(.*?)' %}", r"/realtime/static/\1", text)
    return re.sub(r"{%.*?%}|{{.*?}}", "", text)


def connect_as_bob(page: Page, sidecar: Sidecar) -> None:
    """By his token, to a server that is not this site's."""
    page.fill("#server", sidecar.client_url)
    page.select_option("#as", "token")
    page.fill("#token", BOB)
    page.click("#connect-button")
    expect(page.locator("#connect-outcome")).to_contain_text("connected as bob")


def opened(page: Page, kind: str) -> str:
    """The newest frame of a kind in full."""
    line = page.locator(f'#frames [data-kind="{kind}"]:not([data-way="told"])').first
    line.evaluate("(details) => { details.open = true; }")
    return line.locator("pre").inner_text()


def test_a_renewal_is_the_connections_own(page: Page, sidecar: Sidecar, sessions: list[str]) -> None:
    """Whatever is chosen in the form meanwhile: the token of who is signed in goes to no server but the site's."""
    connect_as_bob(page, sidecar)
    page.select_option("#as", "session")
    page.click("#renew")
    expect(page.locator("#connect-outcome")).to_contain_text("renewed as bob")
    assert sessions == []


def test_frames_show_no_token(page: Page, sidecar: Sidecar) -> None:
    """Neither in words nor in their bytes; other frames are shown with theirs."""
    connect_as_bob(page, sidecar)
    page.click("#renew")
    expect(page.locator("#connect-outcome")).to_contain_text("renewed as bob")
    for kind in ("connect", "token"):
        assert f'"token": "{BOB[:6]}… ({len(BOB)} characters)"' in opened(page, kind)
        assert "\n\n" not in opened(page, kind)
    assert "\n\n" in opened(page, "renewed")
    assert BOB not in page.locator("#frames").inner_text()
    page.fill("#token", "short and secret")
    page.click("#renew")
    expect(page.locator('#frames [data-kind="token"]').first).to_contain_text('"token":"… (16 characters)"')
