"""Every change of a rule is kept: who made it, by what means, from what to what."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from entitlement.history import acting
from entitlement.models import Rule, RuleChange

CODE = ("", "code")


def _told() -> list[tuple[int, str, str, str, list[tuple[str, str, str]]]]:
    """The changes since the last call: rule, kind, who, means, differences of those that changed."""
    found = [
        (one.rule, one.kind(), one.user_name, one.means, one.differences() if one.kind() == "changed" else [])
        for one in RuleChange.objects.order_by("id")
    ]
    RuleChange.objects.all().delete()
    return found


def test_save_and_delete(bob: Any) -> None:
    """One row for each; what stays as it is makes none."""
    rule = Rule.objects.create(user=bob, pattern="/a/b", note="first")
    key = rule.pk
    assert RuleChange.objects.get().after == {
        "who": "user bob",
        "pattern": "/a/b",
        "action": "subscribe",
        "effect": "allow",
        "enabled": True,
        "from": None,
        "until": None,
        "note": "first",
    }
    assert _told() == [(key, "added", *CODE, [])]
    rule.save()
    assert _told() == []
    rule.effect, rule.note = "deny", ""
    with acting(bob, "the admin"):
        rule.save()
    assert _told() == [(key, "changed", "bob", "the admin", [("effect", "allow", "deny"), ("note", "first", "–")])]
    rule.delete()
    assert _told() == [(key, "deleted", *CODE, [])]


def test_bulk_operations(bob: Any) -> None:
    """QuerySet.update, bulk_create, bulk_update and delete, each rule once."""
    rules = Rule.objects.bulk_create([Rule(user=bob, pattern=f"/a/{number}") for number in range(3)])
    keys = [rule.pk for rule in rules]
    assert [(key, kind) for key, kind, *_ in _told()] == [(key, "added") for key in keys]
    assert Rule.objects.filter(pk__in=keys[:2]).update(enabled=False) == 2
    assert _told() == [(key, "changed", *CODE, [("enabled", "yes", "no")]) for key in keys[:2]]
    rules[2].pattern = "/a/two"
    Rule.objects.bulk_update(rules[2:], ["pattern"])
    assert _told() == [(keys[2], "changed", *CODE, [("pattern", "/a/2", "/a/two")])]
    Rule.objects.all().delete()
    assert sorted(told[:2] for told in _told()) == [(key, "deleted") for key in keys]


def test_what_goes_with_its_user_or_group(bob: Any, desk: Group) -> None:
    """A rule that is deleted because its holder is."""
    Rule.objects.create(user=bob, pattern="/a/b")
    Rule.objects.create(group=desk, pattern="/a/b")
    _told()
    bob.delete()
    desk.delete()
    assert [told[1] for told in _told()] == ["deleted", "deleted"]


@pytest.mark.parametrize("in_the_list", [False, True])
def test_who_deletes_the_user_in_the_admin_deletes_the_rules(client: Any, admin_user: User, in_the_list: bool) -> None:
    """On Django's own page of users; a deletion that is not the admin's is not."""
    client.force_login(admin_user)
    users = [User.objects.create_user(f"u{number}") for number in range(3)]
    for user in users:
        Rule.objects.create(user=user, pattern="/a/b")
        Rule.objects.create(user=user, pattern="/a/c")
    _told()
    keys = [user.pk for user in users[: 1 + in_the_list]]
    if in_the_list:
        data = {"action": "delete_selected", "_selected_action": keys, "post": "yes"}
        client.post("/admin/auth/user/", data)
    else:
        client.post(f"/admin/auth/user/{keys[0]}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk__in=keys).exists()
    assert [told[1:4] for told in _told()] == [("deleted", "admin", "the admin")] * 2 * len(keys)
    users[2].delete()
    assert [told[1:4] for told in _told()] == [("deleted", *CODE)] * 2


def test_an_older_entry_of_the_log_is_of_another_deletion(bob: Any, admin_user: User) -> None:
    """Such as one that was logged and did not happen."""
    LogEntry.objects.log_actions(admin_user.pk, [bob], DELETION)
    LogEntry.objects.update(action_time=timezone.now() - timedelta(hours=1))
    Rule.objects.create(user=bob, pattern="/a/b")
    _told()
    bob.delete()
    assert [told[1:4] for told in _told()] == [("deleted", *CODE)]


def test_who_made_it_may_be_deleted(bob: Any) -> None:
    """Also together with rules; the name stays."""
    key = str(bob.pk)
    with acting(bob, "the admin"):
        Rule.objects.create(user=bob, pattern="/a/b")
        bob.delete()
    assert [(one.kind(), one.user_key, one.user_name) for one in RuleChange.objects.order_by("id")] == [
        ("added", key, "bob"),
        ("deleted", key, "bob"),
    ]


def test_a_rollback_takes_its_change_back(bob: Any) -> None:
    """It is of the same transaction."""
    with transaction.atomic():
        Rule.objects.create(user=bob, pattern="/a/b")
        transaction.set_rollback(True)
    assert _told() == []


@pytest.mark.django_db(transaction=True)  # MariaDB has no transactions that take triggers back
def test_without_its_note_nothing_is_changed(bob: Any) -> None:
    """They are one transaction, also for whoever does not open one."""
    rule = Rule.objects.create(user=bob, pattern="/a/b")
    with connection.cursor() as cursor:
        body = "BEGIN SELECT RAISE(ABORT, 'full'); END"
        if connection.vendor == "postgresql":
            cursor.execute(
                "CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '23000'; END $$"
            )
            body = "FOR EACH ROW EXECUTE FUNCTION is_full()"
        elif connection.vendor == "mysql":
            body = "FOR EACH ROW SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1048, MESSAGE_TEXT = 'full'"
        cursor.execute(f"CREATE TRIGGER is_full BEFORE INSERT ON {RuleChange._meta.db_table} {body}")
    rule.effect = "deny"
    try:
        for change in (rule.save, Rule.objects.all().delete, lambda: Rule.objects.update(effect="deny")):
            with pytest.raises(IntegrityError, match="full"):
                change()
    finally:
        with connection.cursor() as cursor:
            on = f" ON {RuleChange._meta.db_table}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER is_full{on}")
            if connection.vendor == "postgresql":
                cursor.execute("DROP FUNCTION is_full")
    assert Rule.objects.get(pk=rule.pk).effect == "allow"


def test_the_admin_notes_and_shows_it(admin_user: User, client: Any, desk: Group) -> None:
    """Form, list, action, the group's page, deletion; shown on the rule's page and in the list of all changes."""
    client.force_login(admin_user)
    data = {"pattern": "/a/b", "action": "subscribe", "effect": "allow", "enabled": "on", "everyone": "on"}
    client.post("/admin/entitlement/rule/add/", data)
    rule = Rule.objects.get()
    client.post(f"/admin/entitlement/rule/{rule.pk}/change/", data | {"effect": "deny"})
    client.post("/admin/entitlement/rule/", {"action": "switch_off", "_selected_action": [rule.pk]})
    page = client.get(f"/admin/entitlement/rule/{rule.pk}/change/").content.decode()
    assert "Changes of this rule" in page
    assert "effect: allow → deny" in page
    assert "enabled: yes → no" in page
    client.post(f"/admin/entitlement/rule/{rule.pk}/delete/", {"post": "yes"})
    page = client.get("/admin/entitlement/rulechange/").content.decode()
    assert "effect: allow → deny" in page
    assert "deny everyone subscribe /a/b" in page
    by = {"user_name": "admin", "means": "the admin"}
    assert [told[1:4] for told in _told()] == [
        (kind, *by.values()) for kind in ("added", "changed", "changed", "deleted")
    ]
    assert client.get("/admin/entitlement/rulechange/add/").status_code == 403
