"""The options that count for a subject, on the page that explores it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.edge.rules import rule, ruled


@pytest.mark.django_db
def test_the_page_of_a_subject_says_which_options_count(settings: Any) -> None:
    """Where a pattern says one; of another subject nothing is said."""
    browser = Client(headers={"host": "localhost:8000"})
    browser.force_login(User.objects.create_superuser("olga"))
    with ruled(rule(1, "/o/**")) as rules:
        settings.REALTIME = settings.REALTIME | {"CONTROL": rules.sidecar.control}
        wide = {"id": 1, "pattern": "/o/*", "cache_messages": 5, "cache_ms": 60_000}
        rules.change(options=[wide, {"id": 2, "pattern": "/o/a", "conflation_ms": 500}])
        rules.publish(["/o/a", "x"], ["/other/a", "x"])
        page = browser.get("/monitoring/subjects/?subject=/o/a").content.decode()
        other = browser.get("/monitoring/subjects/?subject=/other/a").content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert "at most 5 cached, each for 60 s, sent once in 500 ms at most /o/* /o/a" in text
    assert "at most 5 cached" not in other
