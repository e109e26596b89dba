"""The admin's pages: the messages of the outbox, of which those that were set aside can be sent again."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from realtime import publish_many
from realtime.models import OutboxMessage

LIST = "/admin/realtime/outboxmessage/"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rows(settings: Any) -> list[OutboxMessage]:
    """One that waits and one that was set aside, in this order."""
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "CONTROL": "/nonexistent/c.sock"}
    publish_many([("/orders/1", "waits"), ("/orders/2", "refused")])
    OutboxMessage.objects.filter(subject="/orders/2").update(code="denied", reason="no right")
    return list(OutboxMessage.objects.order_by("subject"))


def staff(*permissions: str) -> Client:
    """The browser of a user of the admin with these permissions."""
    user = User.objects.create_user(f"staff{len(permissions)}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_the_list_says_why_and_is_filtered(rows: list[OutboxMessage]) -> None:
    client = staff("view_outboxmessage")
    page = client.get(LIST).content.decode()
    assert "/orders/1" in page
    assert "no right" in page
    shown = {state: client.get(f"{LIST}?state={state}").content.decode() for state in ("waiting", "set_aside")}
    assert {state: ("/orders/1" in page, "/orders/2" in page) for state, page in shown.items()} == {
        "waiting": (True, False),
        "set_aside": (False, True),
    }
    assert client.get(f"{LIST}{rows[1].pk}/change/").status_code == 200
    assert client.get(f"{LIST}add/").status_code == 403


def test_those_that_were_set_aside_are_sent_again_by_who_may(rows: list[OutboxMessage]) -> None:
    form = {"action": "send_again", "_selected_action": [row.pk for row in rows]}
    staff("view_outboxmessage").post(LIST, form)
    assert OutboxMessage.objects.exclude(code="").count() == 1
    answer = staff("view_outboxmessage", "change_outboxmessage").post(LIST, form, follow=True)
    assert "1 messages are sent again." in answer.content.decode()
    first, second = OutboxMessage.objects.order_by("position", "id")
    assert (first, second.subject, second.code, second.reason) == (rows[0], "/orders/2", "", "")
    assert second.pk > rows[1].pk


def test_without_an_outbox_there_is_no_such_page(settings: Any) -> None:
    client = staff("view_outboxmessage", "change_outboxmessage", "view_rule")
    assert "outboxmessage" not in client.get("/admin/").content.decode()
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True}
    assert "outboxmessage" in client.get("/admin/").content.decode()
