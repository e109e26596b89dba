"""The client from static files named by their content, beside a package that forbids to look for imports in scripts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.node import CLIENT, NODE
from tests.support.guide import Project
from tools.client_bundle import FOLDER

OWN_FILES = """
from django.conf import settings
from django.urls import re_path
from django.views.static import serve

urlpatterns += [re_path(r"^static/(?P<path>.*)$", serve, {"document_root": settings.STATIC_ROOT})]
"""
WIDGETS = '/** @typedef {import("../htmx").HtmxApi} Api as a comment of django-htmx has it */\n'
AGGREGATING = """
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage

class Storage(ManifestStaticFilesStorage):
    support_js_module_import_aggregation = True
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """In production, by the guide, with an app whose script breaks what looks for imports."""
    made = Project(tmp_path, 'INSTALLED_APPS += ["widgets"]')
    made.append("mysite/production.py", 'ALLOWED_HOSTS = ["127.0.0.1"]')
    made.append("mysite/urls.py", OWN_FILES)
    made.append("mysite/storage.py", AGGREGATING)
    (tmp_path / "widgets/static/widgets").mkdir(parents=True)
    made.append("widgets/__init__.py", "")
    made.append("widgets/static/widgets/ext.js", WIDGETS)
    return made


@pytest.mark.browser
def test_a_page_is_live_by_one_file_named_by_its_content(project: Project, page: Page) -> None:
    production = {"DJANGO_SETTINGS_MODULE": "mysite.production"}
    looking = "STORAGES['staticfiles'] = {'BACKEND': 'mysite.storage.Storage'}"
    (project.folder / "mysite/looking.py").write_text(f"from mysite.production import *\n{looking}\n")
    fails = project.manage("collectstatic", "--noinput", "--settings", "mysite.looking", check=False)
    assert "ValueError: The file 'htmx' could not be found" in fails.stderr, "else this test shows nothing"
    project.manage("collectstatic", "--noinput", "-v0", **production)
    project.migrate()
    project.manage("entitlement_rules", "allow", "everyone", "/orders/**")
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    with project.running(**production) as site:
        page.goto(f"{site.url}/order/")
        project.shell("from realtime import publish; publish('/orders/42', 'shipped', {'parcels': 2})")
        expect(page.locator("#state")).to_have_text("shipped")
        expect(page.locator("#parcels")).to_have_text("2 parcels")
    scripts = [url.removeprefix(f"{site.url}/static/") for url in loaded if ".js" in url]
    assert len(scripts) == 1
    assert re.fullmatch(r"realtime/client\.[0-9a-f]{12}\.js", scripts[0])


def test_errors_name_the_lines_of_the_modules() -> None:
    """By the map; without it they have the names of the sources all the same."""
    program = (
        f"import {{ connect }} from {CLIENT!r}; try {{ connect({{}}); }} catch (error) {{ console.log(error.stack); }}"
    )
    lines = (FOLDER / "client/connection/options.js").read_text(encoding="utf-8").split("\n")
    for options, place in (["--enable-source-maps"], r"client/connection/options\.js:(\d+)"), ([], r"client\.js:(\d+)"):
        argv = [NODE, *options, "--input-type=module", "--eval", program]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout
        found = re.search(rf"at complete \(.*{place}", said)
        assert found, said
        text = lines if options else (FOLDER / "client.js").read_text(encoding="utf-8").split("\n")
        assert "throw new TypeError" in text[int(found[1]) - 1] or "new TypeError" in text[int(found[1]) - 1]
