"""What test_custom_user.py runs in a process of its own, since a process has one user model."""

from __future__ import annotations

import sys
import time
import uuid
from types import SimpleNamespace
from typing import Any

import django

from tests.support.guide import one


def the_hook_of_the_manual() -> Any:
    """The first example of docs/develop/hooks.md, as it stands there."""
    names: dict[str, Any] = {}
    exec(one("docs/develop/hooks.md", "python", "class Rooms(Hook)"), names)  # noqa: S102 - our own page
    return names["Rooms"]()


def explain_by_id(ann: Any) -> None:
    """A rule with {user_id} is about a key that is a UUID."""
    from entitlement.models import Rule
    from entitlement.rules.explain import explain, person

    rule = Rule.objects.create(everyone=True, pattern="/orders/{user_id}")
    for who, key, found in ((ann, ann.pk, rule), (ann, uuid.uuid4(), None), (None, ann.pk, None)):
        assert explain(person(who), f"/orders/{key}", "subscribe", ask=False).verdict.rule == found


def demonstrate() -> None:
    """The demonstration's users, in a project whose users have other fields."""
    from entitlement import tokens
    from realtime.demo.seed import seed

    assert "user admin" in seed()
    assert seed() == []
    assert tokens.user_named("admin").is_superuser
    assert sorted(tokens.user_named("alice").crews.values_list("name", flat=True)) == ["NASDAQ desk", "NYSE desk"]


def main() -> None:
    """Migrate, change people in every way, and compare what is sent for them."""
    django.setup()
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command
    from django.db import connection

    from entitlement import conf, tokens
    from entitlement.admin import members_of
    from entitlement.following import compiler, triggers
    from fastpath.core.auth.keys import Keys
    from fastpath.core.auth.tokens import verify
    from realtime.hooks import allow

    call_command("migrate", verbosity=0)
    call_command("check", databases=["default"], fail_level="WARNING")
    assert {"staff", "crew membership"} < set(triggers.present(connection).values())
    group = Group.objects.create(name="crew")
    ann = get_user_model().objects.create(email="ann@example.org")
    assert isinstance(ann.pk, uuid.UUID)
    record = {"uid": str(ann.pk), "user": "ann@example.org", "active": True, "superuser": False, "groups": []}

    def sent() -> list[dict[str, object]]:
        nonlocal at
        before, at = at, compiler.position().generation
        return [{k: v for k, v in user.items() if k != "generation"} for user in compiler.difference(before, at).users]

    at = compiler.position().generation - 1
    assert sent() == [record]
    members_of(group).add(ann)
    assert sent() == [record | {"groups": [str(group.pk)]}]
    claims = verify(tokens.mint(ann)[0], Keys(conf.token_secret()), int(time.time() * 1000))
    assert (claims.user, claims.uid, claims.groups) == ("ann@example.org", str(ann.pk), (str(group.pk),))
    get_user_model().objects.update(is_active=False)
    assert sent() == [record | {"groups": [str(group.pk)], "active": False}]
    get_user_model().objects.update(email="eve@example.org")
    assert sent()[0]["user"] == "eve@example.org"
    get_user_model().objects.update(last_login=None)
    assert sent() == []
    get_user_model().objects.update(email="ann@example.org", is_active=True)
    assert sent()[0]["user"] == "ann@example.org"
    hook = the_hook_of_the_manual()
    request = SimpleNamespace(token="ann@example.org", notice=lambda _: None)
    assert hook.connect(request) == allow(user="ann@example.org")
    get_user_model().objects.update(is_active=False)
    assert sent() == [record | {"groups": [str(group.pk)], "active": False}]
    assert not hook.connect(request).allowed
    assert not hook.connect(SimpleNamespace(token="eve@example.org", notice=lambda _: None)).allowed
    get_user_model().objects.update(is_active=True)
    ann.refresh_from_db()
    explain_by_id(ann)
    sent()
    ann.delete()
    assert sent() == [record | {"user": "", "active": False}]
    demonstrate()
    sys.stdout.write("told to the end\n")


if __name__ == "__main__":
    main()
