"""What test_custom_user.py runs in a process of its own, since a process has one user model."""

from __future__ import annotations

import sys
import time
import uuid

import django


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
    ann.delete()
    assert sent() == [record | {"user": "", "active": False}]
    sys.stdout.write("told to the end\n")


if __name__ == "__main__":
    main()
