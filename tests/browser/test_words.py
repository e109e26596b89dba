"""Console and monitoring for a reader of German, in another project under a strict policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.chromium import new_context
from tests.support.browser.console import faults_of
from tests.support.guide import Project
from tests.support.realtime.server import Program

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SETTINGS = """
LOGIN_URL = "/admin/login/"
MIDDLEWARE.insert(2, "django.middleware.locale.LocaleMiddleware")
MIDDLEWARE += ["mysite.policy.strict"]
"""

POLICY = """
def strict(get_response):
    def answered(request):
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'; connect-src 'self' ws://127.0.0.1:*"
        return response
    return answered
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """It has a user and a rule; each reader has a language of their own."""
    made = Project(tmp_path_factory.mktemp("laden"), SETTINGS)
    made.append("mysite/policy.py", POLICY)
    made.manage("migrate", "-v0")
    made.shell("from django.contrib.auth.models import User; User.objects.create_superuser('root', password='demo')")
    made.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    with made.running() as running:
        yield running


def test_pages_and_their_scripts_speak_german(project: Program, browser: Browser) -> None:
    """What Django writes, and what scripts write into it, with German numbers; no fault, nothing that is refused."""
    context = new_context(browser, locale="de-DE")
    page = context.new_page()
    said = faults_of(page)
    page.goto(f"{project.url}/realtime/console/")
    page.fill("#id_username", "root")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.locator("#state")).to_have_text("Nicht verbunden")
    page.click("#connect-button")
    expect(page.locator("#connect-outcome")).to_contain_text("verbunden als root, das Token endet um")
    page.fill("#names", "/orders/42")
    page.click("#subscribe button.main")
    expect(page.locator("#subscribe-outcome")).to_have_text("gefragt nach /orders/42")
    page.goto(f"{project.url}/realtime/monitoring/")
    expect(page.locator("h1")).to_have_text("Übersicht")
    expect(page.locator("#jobs tbody")).to_have_text("kein Job hat sich gemeldet")
    expect(page.locator("#limits tbody th").first).to_have_text("Verbindungen")
    expect(page.locator('#charts [data-figure="connections"] h3')).to_have_text("Verbindungen")
    numbers = "import('/static/realtime/monitoring/common.js').then(({ bytes, count }) => [bytes(1536), count(1234)])"
    assert page.evaluate(numbers) == ["1,5 KiB", "1.234"]
    assert said == []
    context.close()
