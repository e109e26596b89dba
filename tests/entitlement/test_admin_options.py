"""The admin's pages of the options of subjects: what they let in, and which row they say decides."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User

from entitlement.admin_options import answers
from entitlement.models import SubjectOptions

PAGES = "/admin/entitlement/subjectoptions/"
EMPTY = dict.fromkeys(SubjectOptions.OPTIONS, "")
ROW = EMPTY | {"pattern": "/stocks/**", "cache_messages": "50"}


def test_add_and_change(admin_client, news):
    assert admin_client.post(PAGES + "add/", ROW).status_code == 302
    row = SubjectOptions.objects.get()
    assert (row.cache_messages, row.cache_seconds, row.conflation_ms) == (50, None, None)
    assert news() == {("options", str(row.pk))}
    assert admin_client.get(f"{PAGES}{row.pk}/change/").status_code == 200
    assert admin_client.post(f"{PAGES}{row.pk}/change/", ROW | {"cache_messages": "0"}).status_code == 302
    assert news() == {("options", str(row.pk))}
    row.refresh_from_db()
    assert row.cache_messages == 0
    assert admin_client.post(f"{PAGES}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert news() == {("options", str(row.pk))}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pattern": "stocks/**"}, "No leading slash (character 1)"),
        ({"pattern": "/a/**/b"}, "Write /a/*/b instead."),
        ({"pattern": "/__sys__/stats"}, "they have no options"),
        ({"pattern": "/inbox/{username}"}, "{username} stands for whoever asks"),
        ({"cache_messages": ""}, "Set one of the options at least"),
        ({"cache_messages": "-1"}, "greater than or equal to 0"),
        ({"cache_messages": "1000001"}, "less than or equal to 1000000"),
        ({"cache_seconds": "2592001"}, "less than or equal to 2592000"),
        ({"conflation_ms": "150"}, "multiple of step size 100"),
        ({"conflation_ms": "3600100"}, "less than or equal to 3600000"),
        ({"retained": "perhaps"}, "perhaps is not one of the available choices"),
        ({"publish_rate": "1000001"}, "less than or equal to 1000000"),
        ({"delivery": "late"}, "late is not one of the available choices"),
    ],
)
def test_errors_name_what_is_wrong(admin_client, change, text):
    response = admin_client.post(PAGES + "add/", ROW | change)
    assert response.status_code == 200
    assert text in response.content.decode()
    assert not SubjectOptions.objects.exists()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"retained": "False"}, {"retained": False}),
        ({"retained": "True", "delivery": "guaranteed"}, {"retained": True, "delivery": "guaranteed"}),
        ({"delivery": "standard"}, {"delivery": "standard"}),
        ({"presence": "False"}, {"presence": False}),
        ({"publish_rate": "0"}, {"publish_rate": 0}),
    ],
)
def test_one_option_is_enough_and_the_others_say_nothing(admin_client, given, stored):
    assert admin_client.post(PAGES + "add/", EMPTY | {"pattern": "/a/**"} | given).status_code == 302
    row = SubjectOptions.objects.get()
    row.full_clean()
    wanted = dict.fromkeys(SubjectOptions.OPTIONS) | stored
    assert {name: getattr(row, name) for name in SubjectOptions.OPTIONS} == wanted
    page = admin_client.post(f"{PAGES}{row.pk}/change/", EMPTY | {"pattern": "/a/**"})
    assert "Set one of the options at least" in page.content.decode()


def test_a_pattern_has_one_row_and_its_case_counts(admin_client):
    SubjectOptions.objects.create(pattern="/stocks/**", cache_messages=1)
    assert "already exists" in admin_client.post(PAGES + "add/", ROW).content.decode()
    assert admin_client.post(PAGES + "add/", ROW | {"pattern": "/Stocks/**"}).status_code == 302


def test_the_preview_says_which_row_decides(admin_client):
    wide = SubjectOptions.objects.create(pattern="/stocks/**", cache_messages=50, conflation_ms=500, note="all of them")
    close = SubjectOptions.objects.create(
        pattern="/stocks/*/IBM", cache_messages=0, retained=False, delivery="standard", presence=True
    )
    SubjectOptions.objects.create(pattern="/news/*", cache_seconds=9)
    found, covering = answers("/stocks/us/IBM")
    assert covering == [close, wide]
    assert [(one.value, one.row) for one in found[:3]] == [(0, close), (None, None), (500, wide)]
    page = admin_client.get(PAGES + "preview/", {"subject": "/stocks/us/IBM"}).content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for wanted in (
        "Cached messages 0 /stocks/*/IBM",
        "Cached for as the settings have it no pattern",
        "Least conflation 500 /stocks/**",
        "Snapshot not kept /stocks/*/IBM",
        "Delivery standard /stocks/*/IBM",
        "Presence known /stocks/*/IBM",
        "Publications a second as the settings have it no pattern",
        "the most specific first: /stocks/*/IBM /stocks/** – all of them",
    ):
        assert wanted in text
    assert f"{PAGES}{close.pk}/change/" in page


def test_the_preview_of_nothing_and_of_no_subject(admin_client):
    page = admin_client.get(PAGES + "preview/").content.decode()
    assert "No pattern covers" not in page
    assert (
        "No pattern covers the subject." in admin_client.get(PAGES + "preview/", {"subject": "/a/b"}).content.decode()
    )
    assert "No leading slash." in admin_client.get(PAGES + "preview/", {"subject": "a/b"}).content.decode()
    assert "What counts for a subject?" in admin_client.get(PAGES).content.decode()


def test_the_preview_is_for_who_may_look(client, db):
    clerk = User.objects.create_user("clerk", is_staff=True)
    client.force_login(clerk)
    assert client.get(PAGES + "preview/").status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_subjectoptions"))
    assert client.get(PAGES + "preview/").status_code == 200
