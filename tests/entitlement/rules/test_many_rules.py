"""A hundred thousand rules: the admin's pages, an import and the full set stay usable."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.models import User

from entitlement.following import compiler
from entitlement.models import Rule
from entitlement.rules.explain import explain, person
from entitlement.rules.hints import hints
from entitlement.rules.transfer import export, load

COUNT = 100_000
PAGE_SECONDS_MAX = 1.5
"""On a busy machine; it takes a fifth of it."""


@pytest.mark.slow
def test_a_hundred_thousand(admin_client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page in its time; a file of all of them, there and back."""
    users = User.objects.bulk_create(User(username=f"u{number}") for number in range(1000))
    Rule._base_manager.bulk_create(  # without a history, which takes as long again
        (Rule(user=users[number % 1000], pattern=f"/stocks/r{number // 1000}/s{number}") for number in range(COUNT)),
        batch_size=1000,
    )
    rule = Rule.objects.create(everyone=True, pattern="/stocks/**")
    took: dict[str, float] = {}

    def timed(name: str, call: Any) -> Any:
        begin = time.monotonic()
        found = call()
        took[name] = round(time.monotonic() - begin, 2)
        return found

    pages = "/admin/entitlement/rule/"
    for path in ("", "?p=1900", "?who=user", "?q=s99999", "?validity=now", f"{rule.pk}/change/"):
        assert timed(path or "list", lambda path=path: admin_client.get(pages + path)).status_code == 200
    explanation = timed("explain", lambda: explain(person(users[7]), "/stocks/r3/s3007", "subscribe", ask=False))
    assert len(explanation.lines) == 2
    timed("hints", lambda: hints(rule))
    assert all(seconds < PAGE_SECONDS_MAX for seconds in took.values()), took
    timed("full set", lambda: compiler.full_set(1))
    text = timed("export", lambda: "".join(export(Rule.objects.all(), "csv")))
    assert timed("import", lambda: load(text, "csv")).same == COUNT + 1
    with capsys.disabled():
        print("\nwith 100,000 rules, seconds:", took)  # noqa: T201 - the figures of docs/develop/entitlement.md
