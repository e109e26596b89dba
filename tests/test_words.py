"""The texts of pages and the admin: complete in every language, up to date, and none left in English."""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.template.loader import render_to_string
from django.test import Client, RequestFactory, override_settings
from django.urls import reverse
from django.utils import translation

from entitlement import tokens
from entitlement.models import Rule, SubjectOptions
from entitlement.rules.transfer import export
from tests.support.catalogues import APPS, LANGUAGES, asked_for, catalogues, seen
from tests.support.realtime.server import ROOT

CATALOGUES = {str(each.path.relative_to(ROOT)): each for each in catalogues()}

PLACES = re.compile(r"%(?:\(\w+\))?[\w.]*[a-zA-Z]|\{\w*\}|</?\w+")
"""What a text has in place of values, and its elements."""

SAME = re.compile(
    r"""
    (?:[/*]|eyJ|\{|epoch,\ seq) .*   # subjects, patterns, tokens, positions
    | [\d.,]+ \s (?:s|ms|min|h|[KMGT]?i?B|%)   # figures
    | \d+\ messages?[.,]   # as in French
    | Realtime | Fastpath | Django | HTTP | JSON | CSV | msgpack | json | UTF-8
    | close | conflate | guaranteed | standard   # words of the protocol, as they are sent
    | JavaScript | Python | .*ticker.* | admin | root
    | Board   # of this repository's own project
    | \(?code\)?   # by what means a rule was changed: what the history keeps is the same for all
    | the\ sidecar\ does\ not\ answer.*   # its own words, and the client's
    | Sessions?\b.* | Realtime\ \|.* | Administration | Filter | ID | Name: | Note   # Django's, and permissions' names
    | [^·]+\ ·\ (?:Monitoring|Supervision)
    """,
    re.VERBOSE,
)
"""Of a page that reads the same in every language."""


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_text_is_there_with_its_places(name: str) -> None:
    """In all forms of the language; what stands for values stands in the translation, too."""
    wrong = []
    for text, forms in CATALOGUES[name].texts.items():
        wanted = sorted(PLACES.findall(text.plural or text.text))
        if len(forms) != (2 if text.plural else 1) or not all(forms):
            wrong.append(text)
        wrong += [form for form in forms if sorted(PLACES.findall(form)) != wanted]
        wrong += [
            form
            for form in forms
            if (form[:1] == " ", form[-1:] == " ") != (text.text[:1] == " ", text.text[-1:] == " ")
            and len(text.text) > 1
        ]
    assert not wrong


@pytest.mark.parametrize("app", APPS)
def test_the_catalogues_have_what_the_sources_ask_for(app: str) -> None:
    """No less, and nothing that is asked for no more (docs/develop/django.md says how they are brought up to date)."""
    mine = [each for name, each in CATALOGUES.items() if name.startswith(app)]
    domains = {each.path.stem for each in mine}
    for domain in ("django", "djangojs"):
        asked = asked_for(app, domain)
        assert bool(asked) == (domain in domains)
        for language in LANGUAGES if asked else ():
            (found,) = [each for each in mine if each.path.stem == domain and each.path.parts[-3] == language]
            assert set(found.texts) == asked


@pytest.mark.parametrize("name", CATALOGUES)
def test_what_is_compiled_is_what_is_written(name: str) -> None:
    """The compiled files lie beside the texts, in the checkout and in the wheel."""
    path = CATALOGUES[name].path
    with path.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for text, forms in CATALOGUES[name].texts.items():
        if text.plural:
            found = [compiled.ngettext(text.text, text.plural, count) for count in (1, 2)]
        elif text.context:
            found = [compiled.pgettext(text.context, text.text)]
        else:
            found = [compiled.gettext(text.text)]
        assert found == forms


@pytest.mark.parametrize("language", LANGUAGES)
def test_djangos_own_words_stay(language: str) -> None:
    """All apps' texts are one catalogue at run time: ours must not rename the buttons of the project's admin."""
    ours = {
        text.text: forms[0]
        for each in CATALOGUES.values()
        if each.path.stem == "django" and each.path.parts[-3] == language
        for text, forms in each.texts.items()
        if not text.context and not text.plural
    }
    others = []
    for path in Path(django.__file__).parent.glob(f"**/locale/{language}/LC_MESSAGES/django.mo"):
        with path.open("rb") as file:
            theirs = gettext.GNUTranslations(file)
        others += [(text, form) for text, form in ours.items() if theirs.gettext(text) not in (text, form)]
    assert others == []


@pytest.fixture
def site(admin_client: Client, db: None) -> dict[str, Any]:
    """Something of each kind to be shown."""
    group = Group.objects.create(name="ticker desk")
    rule = Rule.objects.create(everyone=True, pattern="/ticker/**")
    Rule.objects.create(group=group, pattern="/ticker/*", note="ticker")
    Rule.objects.filter(pk=rule.pk).update(enabled=False)
    token = tokens.revoke("ticker-1", note="ticker")
    options = SubjectOptions.objects.create(pattern="/ticker/**", cache_messages=5)
    return {"client": admin_client, "rule": rule.pk, "group": group.pk, "token": token.pk, "options": options.pk}


PAGES = [
    "/admin/entitlement/",
    "/admin/entitlement/rule/",
    "/admin/entitlement/rule/add/",
    "/admin/entitlement/rule/{rule}/change/",
    "/admin/entitlement/rule/preview/?subjects=",
    "/admin/entitlement/rule/explain/?subject=/ticker/x&action=subscribe",
    "/admin/entitlement/rule/explain/?subject=/**&action=subscribe",
    "/admin/entitlement/rule/import/",
    "/admin/entitlement/rulechange/",
    "/admin/entitlement/subjectoptions/",
    "/admin/entitlement/subjectoptions/add/",
    "/admin/entitlement/subjectoptions/{options}/change/",
    "/admin/entitlement/subjectoptions/preview/?subject=/ticker/x",
    "/admin/entitlement/revokedtoken/",
    "/admin/entitlement/revokedtoken/add/",
    "/admin/entitlement/revokedtoken/{token}/change/",
    "/admin/auth/group/{group}/change/",
    "/admin/admin/logentry/",
    "/admin/realtime/outboxmessage/",
    "/monitoring/",
    "/monitoring/clients/?subject=x",
    "/monitoring/clients/",
    "/monitoring/clients/0/c1/",
    "/monitoring/subjects/",
    "/monitoring/subjects/?subject=/ticker/x",
    "/monitoring/subjects/?subject=x",
    "/monitoring/trace/",
    "/monitoring/trace/?what=user&name=root&t=0:1",
    "/console/",
    "/console/http/",
]


@pytest.mark.parametrize("path", PAGES)
def test_nothing_of_a_page_is_left_in_english(site: dict[str, Any], path: str) -> None:
    """What reads the same in both languages is a name, a figure or a word of the protocol, or is a word of both."""
    _assert_translated(lambda: site["client"].get(path.format(**site), follow=True).content.decode())


MESSAGE = {
    "subject": "/ticker/x", "time": 1_700_000_000_000, "as_of": {"batch": 7, "job": "ticker", "version": 2}, "epoch": 1,
    "seq": 1234, "retained": False, "content": b"x" * 80, "cut": 5000, "fields": {"ticker": "ticker" * 600},
    "bytes": 12,
}  # fmt: skip
SUBSCRIPTION = {
    "subject": "/ticker/x", "pattern": "/ticker/*", "state": "ticker", "behind": 3, "conflation": 100,
    "slow": "conflate", "right": "ticker",
}  # fmt: skip
CLIENT = {
    "user": "admin", "since": 1_700_000_000_000, "blocked_since": 1_700_000_000_000, "queue_bytes": 1536,
    "lagging": True,
    "queued": [["/ticker/x", 1], ["/ticker/y", 2]], "held": ["ticker"], "held_until": 1_700_000_000_000, "address": "/",
    "uid": "1", "superuser": True, "token": {"id": "", "expires": 1_700_000_000_000}, "publisher": "ticker",
    "network": {"rtt_ms": 1.25, "rtt_var_ms": 1, "retransmits": 3, "last_received_ms": 2000, "reader_limited_ms": 3.5,
                "busy_ms": 300_000},
    "subscriptions": [SUBSCRIPTION], "patterns_list": [SUBSCRIPTION | {"found": 2, "searching": True}],
    "waiting": [{"subject": "/ticker/z", "pattern": "", "error": "ticker", "reason": "ticker"}], "messages": [MESSAGE],
}  # fmt: skip
FACTS = {
    "stale": True, "newest_time": 1_700_000_000_000, "messages_per_s": 1.5, "bytes_per_s": 2000, "cached": 2,
    "cached_bytes": 2000, "oldest_seq": 5, "snapshot": MESSAGE,
    "options": {"cache_messages": 5, "cache_ms": 9000, "conflation_ms": 500, "patterns": {"cache_ms": "/ticker/**"}}
    | {"retained": False, "delivery": "standard", "presence": True, "publish_rate": 7},
}  # fmt: skip
LEVEL = {
    "prefix": "/ticker", "after": "b", "begins": "a", "total": 9,
    "rows": [{"name": "/ticker/a", "segment": "ticker", "children": 2, "subject": True}],
}  # fmt: skip
ROW = {
    "connection": "ticker", "node": 0, "blocked_since": 1_700_000_000_000, "lagging": True, "transport": "/",
    "encoding": "",
}  # fmt: skip
FILLED = {
    "client": {
        "client": CLIENT, "may_operate": True, "node": 0, "node_name": "ticker", "several": True,
        "connection": "ticker", "explain_url": "/", "after": "a", "next": "b",
    },
    "clients": {"rows": [ROW], "total": 3, "search": {"slow": True}, "searched": True, "begin": "a", "next": "b",
                "away": [{"name": "ticker", "error": "ticker"}], "several": True,
                "workers_away": [{"name": "ticker", "value": {"away": [1]}}]},
    "subjects": {"subject": "/ticker/x", "chosen": {"index": 0}, "facts": FACTS, "may_operate": True,
                 "may_publish": True, "option_patterns": ["/ticker/**"],
                 "sums": {"subscribers": 1, "patterns": 2, "conflated": 3, "behind": 4}, "before": "9", "query": "",
                 "history": {"value": {"messages": [MESSAGE], "next": 1234}}, "level": LEVEL, "several": True,
                 "known": [{"index": 0, "name": "ticker", "value": FACTS}]},
    "overview": {"nodes": [{"name": "ticker", "error": "ticker"}, {"name": "ticker", "draining": True},
                           {"name": "ticker", "reasons": {"x": "ticker"}}, {"name": "ticker", "hello": {"epoch": 1}}],
                 "sums": {"connections": 1}, "may_drain": True},
}  # fmt: skip


@pytest.mark.parametrize("name", FILLED)
def test_nothing_of_a_page_full_of_things_is_left_in_english(name: str, rf: RequestFactory) -> None:
    """As the nodes' answers fill them."""
    context = {"base_template": "realtime/base.html", "config": {}, "title": "ticker"} | FILLED[name]
    _assert_translated(lambda: render_to_string(f"realtime/monitoring/{name}.html", context, rf.get("/")))


def test_numbers_in_addresses_are_no_words(rf: RequestFactory) -> None:
    """Groups of thousands are for people."""
    context = {"base_template": "realtime/base.html", "config": {}} | FILLED["subjects"]
    with translation.override("de"), override_settings(USE_THOUSAND_SEPARATOR=True):
        page = render_to_string("realtime/monitoring/subjects.html", context, rf.get("/"))
    assert "before=1234" in page
    assert "1,5 Nachrichten/s, 2 KiB/s" in page


def test_what_programs_read_is_the_same_in_every_language(site: dict[str, Any]) -> None:
    """An exported file fits a site of another language, and is what it was."""
    written = set()
    for language in ("en", *LANGUAGES):
        with translation.override(language):
            written.add("".join(export(Rule.objects.all(), "csv")) + "".join(export(Rule.objects.all(), "json")))
            answer = site["client"].get("/monitoring/data/attention/").json()
            assert {"nodes", "sums", "top", "alarms"} <= set(answer)
    assert len(written) == 1
    assert ",subscribe,allow,no," in written.pop()


def test_commands_speak_english(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the site's language: other programs read them."""
    with translation.override("de"):
        call_command("entitlement_rules", "allow", "everyone", "/ticker/**")
        call_command("entitlement_explain", "-", "/ticker/x")
    said = capsys.readouterr().out
    assert "allow everyone to subscribe /ticker/**" in said
    assert "Somebody who is not signed in may subscribe /ticker/x: rule" in said


def test_scripts_get_their_texts(client: Client) -> None:
    """From an address of the site, as a strict policy wants it; nobody has to be signed in for it."""
    with translation.override("de"):
        german = client.get(reverse("realtime:words"))
    assert german["Content-Type"].startswith("text/javascript")
    assert "niemand ist langsam" in german.content.decode()
    assert "nobody is slow" not in client.get(reverse("realtime:words")).content.decode()


def _assert_translated(render: Callable[[], str]) -> None:
    pages = {}
    for each in ("en", *LANGUAGES):
        with translation.override(each):
            pages[each] = seen(render())
    assert len(pages["en"]) > 10
    left = {each: _left(pages["en"] & pages[each], each) for each in LANGUAGES}
    assert not any(left.values()), left


def _left(texts: set[str], language: str) -> set[str]:
    return {text for text in texts if not SAME.fullmatch(text) and text not in _same_in(language)}


def _same_in(language: str) -> set[str]:
    """The words that are the same in a language, by its catalogues: they were looked at by who wrote these."""
    return {
        text.text
        for each in CATALOGUES.values()
        if each.path.parts[-3] == language
        for text, forms in each.texts.items()
        if forms == [text.text]
    }
