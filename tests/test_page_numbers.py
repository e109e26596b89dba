"""Numbers in what programs read of pages, links, values, data for scripts, are the same however people read numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from entitlement.models import Rule, RuleChange, SubjectOptions
from fastpath.client.control.client import Control
from realtime.models import OutboxMessage
from realtime.nodes.control_sockets import control
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar

pytestmark = pytest.mark.django_db

FOR_PEOPLE = {"title", "aria-label", "alt", "placeholder", "content", "data-words", "datetime"}
"""Attributes with words or times in them."""
DRAWN = {"svg", "path", "circle", "line", "rect", "use"}
CHANGING = re.compile(r"[A-Za-z0-9]{64}|\d{2}:\d{2}(?::\d{2})?")
GROUPED = re.compile(r"\d[.,\u00a0\u202f'’]\d{3}(?!\d)")
COMMA = re.compile(r"-?\d+,\d+")
LARGE = 1_234_567
MESSAGES = 1300


class Machine(HTMLParser):
    """What programs read of a page: attributes, and what stands in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Attributes."""
        self._in_script = tag in ("script", "style")
        named = dict(attrs)
        if named.get("name") != "csrfmiddlewaretoken" and tag not in DRAWN:
            self.found += [(f"{tag} {name}", value or "") for name, value in attrs if name not in FOR_PEOPLE]

    def handle_endtag(self, tag: str) -> None:
        """The script ends."""
        self._in_script = False

    def handle_data(self, data: str) -> None:
        """Scripts, and data for them."""
        if self._in_script:
            self.found.append(("script", data))


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A node with more than a thousand of everything that a page links to by number."""
    with Sidecar(ping_seconds=60, cache_messages=MESSAGES) as sidecar:
        with Control(sidecar.control) as node:
            node.publish([["/a/b", str(number), {"n": str(number)}, {}] for number in range(MESSAGES)])
        yield sidecar


@pytest.fixture
def site(running: Sidecar, settings: Any) -> Iterator[Client]:
    """Rows with large numbers, and a browser of a superuser who has one."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    boss = User.objects.create_superuser("boss", pk=LARGE)
    bob = User.objects.create_user("bob", pk=LARGE + 1)
    group = Group.objects.create(pk=LARGE, name="desk")
    Rule.objects.create(pk=LARGE, everyone=True, pattern="/a/**")
    Rule.objects.create(pk=LARGE + 1, user=bob, pattern="/a/b")
    Rule.objects.create(pk=LARGE + 2, group=group, pattern="/a/*")
    for number in range(12):
        Rule.objects.filter(pk=LARGE).update(note=str(number))
    SubjectOptions.objects.create(pk=LARGE, pattern="/a/**", cache_messages=MESSAGES)
    OutboxMessage.objects.create(pk=LARGE, subject="/a/b", message=b"\x94", size=4096, code="denied", reason="no")
    browser = Client(headers={"host": "localhost:8000"})
    browser.force_login(boss)
    with control():
        yield browser


def pages(connection: str) -> list[str]:
    """Every page of admin and monitoring, as far as it has numbers."""
    models = ["entitlement_rule", "entitlement_subjectoptions", "realtime_outboxmessage", "auth_user", "auth_group"]
    found = [
        reverse(f"admin:{model}_changelist")
        for model in [*models, "entitlement_rulechange", "entitlement_revokedtoken"]
    ]
    found += [
        reverse(f"admin:{model}_{page}", args=[LARGE]) for model in models for page in ("change", "delete", "history")
    ]
    found += [reverse("admin:entitlement_rulechange_change", args=[RuleChange.objects.latest("pk").pk])]
    found += [
        f"/admin/entitlement/rule/explain/?subject=/a/b&action=subscribe&user={LARGE + 1}",
        f"/admin/entitlement/rule/preview/?user={LARGE + 1}&subjects=/a/**",
        "/admin/entitlement/subjectoptions/preview/?subject=/a/b",
        f"/admin/entitlement/rule/add/?user={LARGE + 1}&pattern=/a/b",
        f"/admin/entitlement/rule/?group__id__exact={LARGE}",
        f"/admin/entitlement/rulechange/?q={LARGE}",
    ]
    found += ["/monitoring/", "/monitoring/clients/", f"/monitoring/clients/0/{connection}/", "/monitoring/trace/"]
    found += [
        "/monitoring/subjects/?subject=/a/b",
        "/monitoring/subjects/?subject=/a/b&before=1250",
        "/console/",
        "/console/http/",
        "/",
    ]
    return found


def read(browser: Client, address: str) -> list[tuple[str, str]]:
    """What programs read of that page."""
    answer = browser.get(address, follow=True)
    assert answer.status_code == 200, address
    return [(where, CHANGING.sub("…", what)) for where, what in Machine(answer.content.decode()).found]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_what_programs_read_has_no_groups_of_thousands(
    site: Client, running: Sidecar, settings: Any, language: str
) -> None:
    """Nor a comma for a point; it is what it is where nobody groups."""
    settings.LANGUAGE_CODE = language
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if not one.endswith("LocaleMiddleware")]
    with WireClient(running) as client, translation.override(language):
        client.subscribe("/a/b")
        connection = re.findall(
            r'href="/monitoring/clients/0/([^/"]+)/"', site.get("/monitoring/clients/").content.decode()
        )[0]
        seen = 0
        for address in pages(connection):
            plain = read(site, address)
            settings.USE_THOUSAND_SEPARATOR = True
            grouped = read(site, address)
            settings.USE_THOUSAND_SEPARATOR = False
            for where, what in grouped:
                what = what.replace(connection, "CONNECTION")  # a name with points and numbers in it
                if where != "script":
                    assert not GROUPED.search(what), (address, where, what)
                    assert not COMMA.fullmatch(what), (address, where, what)
            assert [one for one in grouped if one not in plain] == [], address
            seen += sum(str(LARGE) in what or re.search(r"before=1\d{3}", what) is not None for _, what in grouped)
        assert seen > 40, "there are large numbers to be read"


def test_numbers_that_name_something_are_not_grouped(site: Client, running: Sidecar, settings: Any) -> None:
    """Who reads of rule 1234567 on a page looks for 1234567; and an epoch is no amount."""
    settings.USE_THOUSAND_SEPARATOR = True
    grouped = re.compile(r"1,234,56\d|\d,\d{3},\d{3},\d{3}")
    with WireClient(running) as client:
        client.subscribe("/a/b")
        listed = site.get("/monitoring/clients/").content.decode()
        connection = re.findall(r'href="/monitoring/clients/0/([^/"]+)/"', listed)[0]
        found = {
            address: grouped.findall(site.get(address, follow=True).content.decode()) for address in pages(connection)
        }
    assert {address: numbers for address, numbers in found.items() if numbers} == {}


def test_links_lead_where_they_say(site: Client, settings: Any) -> None:
    """With groups of thousands: all changes of a rule, and the older messages of a subject."""
    settings.USE_THOUSAND_SEPARATOR = True
    page = site.get(reverse("admin:entitlement_rule_change", args=[LARGE])).content.decode()
    [link] = re.findall(r'href="([^"]*rulechange/\?q=[^"]*)"', page)
    assert len(site.get(link).context["cl"].result_list) == RuleChange.objects.filter(rule=LARGE).count() > 10
    page = site.get("/monitoring/subjects/?subject=/a/b").content.decode()
    [older] = re.findall(r'rel="next" href="([^"]*)"', page)
    assert int(dict(parse_qsl(urlsplit(older.replace("&amp;", "&")).query))["before"]) > 1000
    assert (
        "1,300"
        not in site.get(f"/monitoring/subjects/{older.replace('&amp;', '&')}")
        .content.decode()
        .partition('id="history"')[2]
    )
