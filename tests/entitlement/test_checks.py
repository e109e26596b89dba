"""manage.py check says what would keep changes from being seen."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.db import connection

from entitlement import checks, keys
from entitlement.following import triggers
from entitlement.models import Rule, SubjectOptions
from tests.support.databases import unchecked


def _ids(**options: object) -> list[str]:
    return [message.id for message in run_checks(**options) if message.id.startswith("entitlement.")]


def test_nothing_to_say(db):
    assert _ids() == []
    assert _ids(databases=["default"]) == []


@pytest.mark.django_db(transaction=True)  # MariaDB has no transactions that take triggers back
def test_missing_triggers():
    count = len(triggers.present(connection))
    triggers.remove(connection)
    [message] = [m for m in run_checks(databases=["default"]) if m.id == "entitlement.W001"]
    triggers.install(connection)
    assert f"{count} triggers are missing" in message.msg
    assert "entitlement_rule (DELETE, INSERT, " in message.msg
    assert "migrate" in message.hint


def test_rows_that_no_sidecar_can_read(db):
    """A warning, which keeps no command from running: migrate least of all."""
    SubjectOptions.objects.bulk_create([SubjectOptions(pattern="a//b", cache_messages=1)])
    with unchecked():
        Rule.objects.bulk_create([Rule(everyone=True, pattern="orders/**")])
    good = Rule.objects.create(everyone=True, pattern="/a/b")
    bad = Rule.objects.get(pattern="orders/**")
    [message] = [m for m in run_checks(databases=["default"]) if m.id == "entitlement.W007"]
    assert f"rule {bad.pk} (no leading slash)" in message.msg
    assert "options " in message.msg
    assert f"rule {good.pk} " not in message.msg
    assert not message.is_serious()
    with unchecked():
        Rule.objects.filter(pk=bad.pk).update(effect="deny")
    [message] = [m for m in run_checks(databases=["default"]) if m.id == "entitlement.W008"]
    assert "may have denied something" in message.msg
    assert not message.is_serious()
    assert _ids() == [], "without --database the database is not asked"


def test_other_databases(db, monkeypatch):
    monkeypatch.setattr(connection, "vendor", "oracle")
    [message] = [m for m in run_checks() if m.id == "entitlement.E001"]
    assert "cannot follow changes in a oracle database" in message.msg


def test_databases_that_triggers_cannot_bridge(db, settings):
    settings.DATABASE_ROUTERS = ["tests.entitlement.test_checks.Apart"]
    assert "entitlement.E002" in _ids()


class Apart:
    """Puts the sessions elsewhere."""

    def db_for_write(self, model: type, **_: object) -> str | None:
        return "elsewhere" if model._meta.app_label == "sessions" else None


def test_the_file_of_keys(db, settings, tmp_path):
    path = tmp_path / "keys.json"
    settings.REALTIME = settings.REALTIME | {"TOKEN_KEYS": str(path)}
    assert _ids() == ["entitlement.W005"]
    keys.rotate(str(path), "EdDSA")
    assert _ids() == []
    path.chmod(0o604)
    assert _ids() == ["entitlement.W004"]


def test_settings_that_make_no_sense(db, settings):
    for change, found in (
        ({"TOKEN_SECONDS": 0}, "entitlement.E003"),
        ({"TOKEN_SECONDS": "x"}, "entitlement.E003"),
        ({"TOKEN_SECRET": "short"}, "entitlement.W002"),
    ):
        settings.REALTIME = {"CONTROL": "c"} | change
        assert _ids() == [found]
    settings.REALTIME = {}
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    assert _ids() == ["entitlement.W003"]


def test_without_a_rule_the_command_for_one_is_named(db, monkeypatch):
    [hint] = checks.rules_messages()
    assert (hint.id, hint.is_serious(), "entitlement_rules allow everyone '/scores/**'" in hint.hint) == (
        "entitlement.I001", False, True,
    )  # fmt: skip
    monkeypatch.setenv("FASTPATH_MODE", "jwt")
    assert checks.rules_messages() == []
    monkeypatch.delenv("FASTPATH_MODE")
    Rule.objects.create(everyone=True, pattern="/a/b")
    assert checks.rules_messages() == []
