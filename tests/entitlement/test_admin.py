"""The admin's pages show rules and members, change them, and say what is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entitlement.admin import INLINE_RULES_MAX
from entitlement.models import Rule

RULES = "/admin/entitlement/rule/"
GROUPS = "/admin/auth/group/"
RULE = {"pattern": "/stocks/**", "action": "subscribe", "effect": "allow", "enabled": "on", "everyone": "on"}


def _rows(response) -> list[Rule]:
    return list(response.context["cl"].result_list)


def test_add_page_explains_who_and_pattern(admin_client):
    page = admin_client.get(RULES + "add/").content.decode()
    for text in (
        "Exactly one of these four.",
        "stands for exactly one segment",
        "/inbox/{username}",
        "deny wins",
        "admin-autocomplete",
    ):
        assert text in page


def test_add_and_change(admin_client, news):
    assert admin_client.post(RULES + "add/", RULE).status_code == 302
    rule = Rule.objects.get()
    assert news() == {("rule", str(rule.pk))}
    assert admin_client.get(f"{RULES}{rule.pk}/change/").status_code == 200
    assert admin_client.post(f"{RULES}{rule.pk}/change/", RULE | {"effect": "deny"}).status_code == 302
    assert news() == {("rule", str(rule.pk))}
    rule.refresh_from_db()
    assert rule.effect == "deny"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"pattern": "stocks/**"},
            "No leading slash (character 1): a pattern begins with a slash. Write /stocks/",
        ),
        ({"pattern": "/a/**/b"}, "Write /a/*/b instead."),
        ({"pattern": "/__sys__/a", "action": "publish"}, "can be read, never published to"),
        ({"anonymous": "on"}, "Say who, once: choose a user or a group"),
        ({"everyone": ""}, "Say who, once"),
    ],
)
def test_errors_name_what_is_wrong(admin_client, change, text):
    data = {name: value for name, value in (RULE | change).items() if value}
    response = admin_client.post(RULES + "add/", data)
    assert response.status_code == 200
    assert text in response.content.decode()
    assert not Rule.objects.exists()


def test_list_filters_and_search(admin_client, bob, desk):
    now, hour = timezone.now(), timedelta(hours=1)
    User.objects.create_user("eve")
    first = Rule.objects.create(user=bob, pattern="/stocks/**", note="bonds too")
    later = Rule.objects.create(group=desk, pattern="/news/*", effect="deny", valid_from=now + hour)
    ended = Rule.objects.create(anonymous=True, pattern="/a/b", valid_until=now - hour, enabled=False)
    until = Rule.objects.create(everyone=True, pattern="/a/c", valid_until=now + hour)
    page = admin_client.get(RULES)
    text = page.content.decode()
    assert _rows(page) == [ended, until, later, first]
    for shown in (
        "user bob",
        "group NYSE desk",
        "✕\N{NO-BREAK SPACE}deny",
        "always",
        "ended ",
        "until ",
        "from ",
        "bonds too",
    ):
        assert shown in text
    for query, rows in {
        f"q={later.pk}": [later],
        "q=bonds": [first],
        "q=bob": [first],
        "q=NYSE": [later],
        "q=/a/": [ended, until],
        "validity=now": [until, first],
        "validity=later": [later],
        "validity=ended": [ended],
        "who=user": [first],
        "who=group": [later],
        "who=everyone": [until],
        "who=anonymous": [ended],
        "effect__exact=deny": [later],
        "enabled__exact=0": [ended],
    }.items():
        assert _rows(admin_client.get(f"{RULES}?{query}")) == rows, query


def _queries(client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


@pytest.mark.parametrize("path", [RULES, RULES + "?who=group&q=rule", GROUPS, "/admin/entitlement/rulechange/"])
def test_a_long_list_asks_no_more_than_a_short_one(admin_client, path):
    """However many rules of however many users and groups are on a page, the queries are the same."""

    def add(count: int) -> None:
        for number in range(count):
            user = User.objects.create_user(f"rule user {count} {number}")
            group = Group.objects.create(name=f"rule group {count} {number}")
            user.groups.add(group)
            Rule.objects.create(user=user, pattern=f"/a/{number}")
            Rule.objects.create(group=group, pattern=f"/b/{number}")

    add(2)
    few = _queries(admin_client, path)
    add(20)
    assert _queries(admin_client, path) == few <= 10


def test_a_group_with_very_many_rules_leads_to_their_list(admin_client, desk):
    """In place of a form for each."""
    rules = [Rule(group=desk, pattern=f"/many/{number}") for number in range(INLINE_RULES_MAX + 1)]
    Rule.objects.bulk_create(rules)
    url = f"{GROUPS}{desk.pk}/change/"
    page = admin_client.get(url).content.decode()
    assert f"{RULES}?group__id__exact={desk.pk}" in page
    assert "/many/7" not in page
    assert admin_client.post(url, {"name": "renamed", "members": []}).status_code == 302
    assert Rule.objects.filter(group=desk).count() == INLINE_RULES_MAX + 1
    assert f'?group__id__exact={desk.pk}">{INLINE_RULES_MAX + 1}</a>' in admin_client.get(GROUPS).content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "99999999999999999999999/change/",
        "²/change/",
        "?q=99999999999999999999999",
        "explain/?user=x&subject=/a/b&action=subscribe",
        "explain/?user=&subject=%00&action=both",
        "preview/?user=99999999999999999999999&show=nothing",
        "export/xml/",
        "export/csv/?pattern__nonsense=1",
        "import/",
    ],
)
def test_what_somebody_may_type_into_the_address(admin_client, path):
    """Is answered with a page, or leads to the list."""
    assert admin_client.get(RULES + path).status_code in (200, 302, 400)


def test_actions_switch_rules_off_and_on(admin_client, news):
    rule = Rule.objects.create(everyone=True, pattern="/a/b")
    news()
    for action, enabled in (("switch_off", False), ("switch_on", True)):
        admin_client.post(RULES, {"action": action, "_selected_action": [rule.pk]})
        rule.refresh_from_db()
        assert rule.enabled is enabled
        assert news() == {("rule", str(rule.pk))}


def test_group_page_shows_and_edits_members_and_rules(admin_client, news, bob, desk):
    eve = User.objects.create_user("eve")
    eve.groups.add(desk)
    rule = Rule.objects.create(group=desk, pattern="/stocks/**")
    url = f"{GROUPS}{desk.pk}/change/"
    page = admin_client.get(url)
    assert list(
        page.context["adminform"].form.get_initial_for_field(
            page.context["adminform"].form.fields["members"], "members"
        )
    ) == [eve]
    assert "/stocks/**" in page.content.decode()
    news()
    # The field prefix is the formset's: Rule has no reverse name on Group.
    prefix = page.context["inline_admin_formsets"][0].formset.prefix
    inline = {
        f"{prefix}-TOTAL_FORMS": "2",
        f"{prefix}-INITIAL_FORMS": "1",
        f"{prefix}-0-id": rule.pk,
        f"{prefix}-0-group": desk.pk,
        f"{prefix}-0-pattern": "/stocks/**",
        f"{prefix}-0-action": "subscribe",
        f"{prefix}-0-effect": "deny",
        f"{prefix}-0-enabled": "on",
        f"{prefix}-1-group": desk.pk,
        f"{prefix}-1-pattern": "/news/**",
        f"{prefix}-1-action": "both",
        f"{prefix}-1-effect": "allow",
        f"{prefix}-1-enabled": "on",
    }
    response = admin_client.post(url, {"name": desk.name, "members": [bob.pk]} | inline)
    assert response.status_code == 302, response.context["errors"]
    assert list(desk.user_set.all()) == [bob]
    added = Rule.objects.get(pattern="/news/**")
    assert added.group == desk
    assert news() == {
        ("user", str(bob.pk)),
        ("user", str(eve.pk)),
        ("rule", str(rule.pk)),
        ("rule", str(added.pk)),
    }


def test_members_are_for_who_may_change_users(client, bob, desk):
    """Else whoever may change groups could join any."""
    bob.is_staff = True
    bob.save()
    bob.user_permissions.add(*Permission.objects.filter(codename__in=("add_group", "change_group", "view_user")))
    client.force_login(bob)
    url = f"{GROUPS}{desk.pk}/change/"
    assert 'name="members"' not in client.get(url).content.decode()
    assert client.post(url, {"name": "renamed", "members": [bob.pk]}).status_code == 302
    assert client.post(GROUPS + "add/", {"name": "mine", "members": [bob.pk]}).status_code == 302
    assert set(Group.objects.values_list("name", flat=True)) == {"renamed", "mine"}
    assert not bob.groups.exists()
    bob.user_permissions.add(Permission.objects.get(codename="change_user"))
    assert 'name="members"' in client.get(url).content.decode()
    client.post(url, {"name": "renamed", "members": [bob.pk]})
    assert list(bob.groups.all()) == [desk]


def test_new_group_with_members(admin_client, bob):
    assert "members" in admin_client.get(GROUPS + "add/").content.decode()
    admin_client.post(GROUPS + "add/", {"name": "new", "members": [bob.pk]})
    assert list(Group.objects.get(name="new").user_set.all()) == [bob]
    assert admin_client.get(GROUPS).status_code == 200
