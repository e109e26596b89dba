"""What the monitoring pages say of sizes and of nodes that are not ready, and the admin's log that they link to."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client, RequestFactory

from realtime.conf import conf
from realtime.monitoring import attention, pages
from realtime.monitoring.questions import NodeAnswer
from realtime.nodes import nodes
from realtime.templatetags import monitoring as filters

LOG = "/admin/admin/logentry/"


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[nodes.State]:
    """What the nodes say, instead of asking them."""
    told: list[nodes.State] = []
    monkeypatch.setattr(nodes, "states", lambda: told)
    return told


def browser(*permissions: str, name: str = "olga", staff: bool = False) -> Client:
    """Of a user with these permissions."""
    user = User.objects.create_user(name, is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (None, "–"),
        ("", "–"),
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (2**20, "1 MiB"),
        (2.7 * 2**20, "2.7 MiB"),
        (300 * 2**30, "300 GiB"),
        (5 * 2**40, "5 TiB"),
    ],
)
def test_sizes_are_in_the_units_of_the_scripts(number: Any, words: str) -> None:
    """The same numbers as tests/browser/test_monitoring_scripts.py has."""
    assert filters.size(number) == words


@pytest.mark.django_db
def test_a_node_that_is_not_ready_says_why(states: list[nodes.State]) -> None:
    """In the table, and to the page's script; an away one is marked."""
    address = conf.controls[0]
    reasons = {"full": "60 of 60 clients", "rights": "none yet"}
    states[:] = [
        nodes.State(address, {"engine": "memory"}, {"memory_bytes": 3 << 20}, reasons=reasons),
        nodes.State("b.sock", error="no answer within 2 s"),
    ]
    page = browser("view_monitoring").get("/monitoring/").content.decode()
    assert "<td data-state>not ready: 60 of 60 clients; none yet</td>" in page
    assert '<tbody data-node="b.sock" class="away">' in page
    assert 'data-cell="memory_bytes">3 MiB<' in page
    assert attention.node_row(states[0])["reasons"] == reasons
    assert attention.state_now(states[0], NodeAnswer(0, "a", {"subjects": []})) == states[0]
    assert attention.state_now(states[0], NodeAnswer(0, "a", error="not ready", code="not_ready")) == states[0]
    late = attention.state_now(states[0], NodeAnswer(0, "a", error="no answer within 2 s"))
    assert (late.error, late.figures, late.reasons) == ("no answer within 2 s", {}, {}), "it has just not answered"


@pytest.mark.django_db
def test_the_log_can_be_read_and_not_be_changed() -> None:
    """By who may see it; when, who, to what and the message, by user and by date; the monitoring pages lead there."""
    client = browser("view_monitoring", "view_logentry", staff=True)
    request = RequestFactory().post("/")
    request.user = User.objects.get(username="olga")
    pages.note(request, "client 0.1.2 of bob", "disconnected 1 connection: too loud")
    entry = LogEntry.objects.get()
    request.user = User.objects.create_user("other")
    pages.note(request, "/x", "published a test message")
    assert f'href="{LOG}"' in client.get("/monitoring/trace/").content.decode()
    page = client.get(f"{LOG}?user__id__exact={entry.user.pk}&action_time__year={entry.action_time.year}")
    assert page.status_code == 200
    assert "published a test message" not in page.content.decode()
    for words in ("client 0.1.2 of bob", "disconnected 1 connection: too loud", "olga", "By action time", "By user"):
        assert words in page.content.decode()
    assert "too loud" in client.get(f"{LOG}{entry.pk}/change/").content.decode()
    assert client.get(f"{LOG}add/").status_code == 403
    assert client.post(f"{LOG}{entry.pk}/change/", {"change_message": "nothing"}).status_code == 403
    assert client.post(f"{LOG}{entry.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(LOG, {"action": "delete_selected", "_selected_action": [entry.pk], "post": "yes"})
    entry.refresh_from_db()
    assert entry.change_message == "disconnected 1 connection: too loud"


@pytest.mark.django_db
def test_the_log_is_for_who_may_see_it() -> None:
    """Neither for staff as such, nor for who may see the monitoring alone: they find no link."""
    for name, staff in (("stan", True), ("vera", False)):
        client = browser("view_monitoring", *([] if staff else ["view_logentry"]), name=name, staff=staff)
        assert LOG not in client.get("/monitoring/trace/").content.decode()
        assert client.get(LOG).status_code == (403 if staff else 302)
