"""As of when data is, on the page that explores a subject: in its history and in its snapshot."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone
from django.utils.html import conditional_escape

from fastpath.client.control.client import Control
from realtime.templatetags import monitoring as filters
from tests.support.sidecar import Sidecar

AT = 1_700_000_000_123
WHEN = f"{timezone.datetime.fromtimestamp(AT / 1000, timezone.get_current_timezone()):%Y-%m-%d %H:%M:%S}.123"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (AT, WHEN),
        (17, "17"),
        ("the close of Friday", "the close of Friday"),
        ("<b>", "&lt;b&gt;"),
        ({}, ""),
        ({"time": AT}, WHEN),
        ({"time": AT, "batch": 17, "job": "bars", "version": 3}, f"{WHEN}, batch 17 of bars, version 3"),
        ({"batch": 0}, "batch 0"),
        ({"job": "<i>"}, "&lt;i&gt;"),
        ({"time": "2026-01-01", "version": 0}, "2026-01-01, version 0"),
    ],
)
def test_as_of_in_words(told: Any, words: str) -> None:
    """A time, the publisher's own words, or what a job says of itself; never as HTML."""
    assert plain(conditional_escape(filters.as_of(told))) == words


@pytest.mark.django_db
def test_the_page_of_a_subject_says_it(carrier: Sidecar) -> None:
    """Of each message in the history, and of the snapshot that the newest retained one made."""
    viewer = User.objects.create_user("vera")
    viewer.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    browser = Client(headers={"host": "localhost:8000"})
    browser.force_login(viewer)
    with Control(carrier.control) as connection:
        connection.publish(
            [
                ["/told/a", "1", None, {"as_of": "Friday"}],
                ["/told/a", "2", None, {"as_of": {"time": AT, "batch": 4, "job": "bars"}}],
                ["/told/b", "1"],
            ]
        )
        messages = connection.history("/told/a")["messages"]
        assert [message["as_of"] for message in messages] == [{"time": AT, "batch": 4, "job": "bars"}, "Friday"]
    page = plain(browser.get("/monitoring/subjects/?subject=/told/a").content.decode())
    snapshot, history = page.split("History", 1)
    assert f"data as of {WHEN}, batch 4 of bars" in snapshot
    assert f"as of {WHEN}, batch 4 of bars" in history
    assert "as of Friday" in history
    assert "as of" not in plain(browser.get("/monitoring/subjects/?subject=/told/b").content.decode())


def plain(page: str) -> str:
    """A page's text."""
    return re.sub("<[^>]+>", "", page)
