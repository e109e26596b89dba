"""Console and monitoring in another project: below a prefix, in its base template, under a strict policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.chromium import new_context
from tests.support.browser.console import faults_of
from tests.support.guide import Project, Running
from tests.support.realtime.server import Program

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SETTINGS = """
FORCE_SCRIPT_NAME = "/app"
STATIC_URL = "static/"
LOGIN_URL = "/app/admin/login/"
REALTIME = {"BASE_TEMPLATE": "site.html"}
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

SITE = """<!doctype html>
<html lang="en"><head><title>{% block title %}{% endblock %} of the shop</title>{% block head %}{% endblock %}</head>
<body><p id="shop">The shop</p>{% block corner %}{% endblock %}{% block content %}{% endblock %}
{% block scripts %}{% endblock %}</body></html>
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """It has a user and a rule."""
    made = Project(tmp_path_factory.mktemp("shop"), SETTINGS)
    made.append("mysite/policy.py", POLICY)
    made.append("templates/site.html", SITE)
    made.manage("migrate", "-v0")
    made.shell("from django.contrib.auth.models import User; User.objects.create_superuser('root', password='demo')")
    made.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    with made.running() as running:
        yield running


def test_the_pages_work(project: Running, browser: Browser) -> None:
    """What the policy refuses the browser would say."""
    context = new_context(browser)
    page = context.new_page()
    said = faults_of(page)
    page.goto(f"{project.url}/app/realtime/console/")
    page.fill("#id_username", "root")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    expect(page.locator("#shop")).to_have_text("The shop")
    page.click("#connect-button")
    expect(page.locator("#state")).to_have_text("Live")
    page.fill("#names", "/orders/42")
    page.click("#subscribe button.main")
    expect(page.locator("#subscriptions")).to_contain_text("/orders/42")
    page.goto(f"{project.url}/app/realtime/monitoring/")
    expect(page.locator("#shop")).to_have_text("The shop")
    expect(page.locator("#banner-text")).not_to_have_text("Waiting for the first figures…")
    expect(page.locator("#charts canvas").first).to_be_visible()
    page.click(".sub-nav >> text=Clients")
    expect(page.locator("#count")).to_contain_text("client")
    assert said == []
    context.close()
