"""Console and monitoring in other projects: with their prefix, base template, policy, users, admin and language."""

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


OTHERS = """
from pathlib import Path
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
LANGUAGE_CODE = "de"
USE_I18N = True
CSRF_COOKIE_HTTPONLY = CSRF_USE_SESSIONS = True
CSRF_HEADER_NAME = "HTTP_X_SHOP_TOKEN"
INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = "people.admin_site.ShopAdminConfig"
INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.User"
REALTIME = {"BASE_TEMPLATE": "site.html"}
MIDDLEWARE += ["mysite.policy.strict"]
STATIC_ROOT = BASE_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}
"""
"""A page that no script can find a CSRF token in but its own; files named by their content, which nobody else has."""

PEOPLE = {
    "__init__.py": "",
    "models.py": """
import uuid
from django.contrib.auth.models import AbstractUser
from django.db import models

class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
""",
    "admin_site.py": """
from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig

class ShopAdmin(AdminSite):
    site_header = "Verwaltung des Ladens"

class ShopAdminConfig(AdminConfig):
    default_site = "people.admin_site.ShopAdmin"
""",
}

URLS = """
from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.static import serve

urlpatterns = [
    path("verwaltung/", admin.site.urls),
    path("live/", include("realtime.urls")),
    re_path(r"^static/(?P<path>.*)$", serve, {"document_root": settings.STATIC_ROOT}),
]
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A project that has chosen otherwise wherever it can, in German, as it is in production."""
    made = Project(tmp_path_factory.mktemp("laden"), OTHERS)
    for file, text in PEOPLE.items():
        (made.folder / "people").mkdir(exist_ok=True)
        made.append(f"people/{file}", text)
    (made.folder / "mysite" / "urls.py").write_text(URLS)
    made.append("mysite/policy.py", POLICY)
    made.append("templates/site.html", SITE.replace('lang="en"', 'lang="de"'))
    made.manage("makemigrations", "people", "-v0")
    made.manage("migrate", "-v0")
    made.manage("collectstatic", "--noinput", "-v0")
    made.shell("from people.models import User; User.objects.create_superuser('root', password='demo')")
    made.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    with made.running() as running:
        yield running


def test_the_pages_of_a_project_that_chose_otherwise(other: Running, browser: Browser) -> None:
    """They connect, show and act, in its language, in its own admin, and name no file that is not there."""
    context = new_context(browser, locale="de-DE")
    page = context.new_page()
    said, missing = faults_of(page), []
    page.on(
        "response",
        lambda answer: (
            None if answer.ok or answer.status < 400 or "favicon" in answer.url else missing.append(answer.url)
        ),
    )
    page.goto(f"{other.url}/live/console/")
    page.fill("#id_username", "root")
    page.fill("#id_password", "demo")
    page.click("input[type=submit]")
    page.click("#connect-button")
    expect(page.locator("html[data-connection=connected]")).to_have_count(1)
    page.fill("#names", "/orders/42")
    page.click("#subscribe button.main")
    expect(page.locator("#subscriptions")).to_contain_text("/orders/42")
    expect(page.locator("#connect-button")).not_to_have_text("Connect")
    page.goto(f"{other.url}/live/monitoring/")
    expect(page.locator("#charts canvas").first).to_be_visible()
    page.click(".sub-nav >> nth=0 >> a >> nth=1")
    expect(page.locator("#count")).to_contain_text("Client")
    page.goto(f"{other.url}/verwaltung/entitlement/rule/")
    expect(page.locator("#site-name")).to_contain_text("Verwaltung des Ladens")
    expect(page.locator("#result_list")).to_contain_text("/orders/**")
    title, tools = (page.locator(each).bounding_box() for each in ("#content h1", ".object-tools"))
    assert title is not None
    assert tools is not None
    assert title["y"] + title["height"] <= tools["y"], "seven buttons beside the title would lie over it"
    cut = page.locator("#changelist-form .results").evaluate("box => box.scrollWidth - box.clientWidth")
    assert cut <= 0, "at 1280 px, with German words"
    assert (said, missing) == ([], [])
    context.close()


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
