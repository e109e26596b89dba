"""Who may see the overview, what its lists say of several nodes, and what its actions leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from realtime.conf import conf
from realtime.monitoring import attention, overview, pages
from realtime.monitoring.questions import NodeAnswer
from realtime.nodes import nodes
from realtime.stats import figures
from realtime.stats.windows import WINDOWS
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

SUBJECT = "/stocks/us/IBM"


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """A node in which everybody may do everything."""
    with Sidecar() as sidecar:
        yield sidecar


@pytest.fixture
def bob(db: None, settings: Any, tmp_path: Path) -> User:
    """A user without any permission; where no test says otherwise no sidecar answers."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    return User.objects.create_user("bob")


def may(user: User, *names: str) -> Client:
    """A browser in which the user is signed in, with these permissions besides."""
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


def test_the_pages_are_for_who_has_the_permission(bob: User) -> None:
    """Not for staff as such; others are told so instead of being sent in circles, and find no link."""
    assert Client().get("/monitoring/?window=1h")["Location"] == "/accounts/login/?next=/monitoring/%3Fwindow%3D1h"
    bob.is_staff = True
    bob.save()
    client = may(bob)
    refused = client.get("/monitoring/")
    assert refused.status_code == 403
    assert b'href="/monitoring/"' not in client.get("/").content
    client = may(bob, "view_monitoring")
    page = client.get("/monitoring/")
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    assert b'href="/monitoring/"' in client.get("/").content


def test_a_page_without_inline_scripts(bob: User) -> None:
    """So that a Content-Security-Policy may forbid them; what is inline is data."""
    page = may(bob, "view_monitoring").get("/monitoring/").content.decode()
    scripts = [part.split(">")[0] for part in page.split("<script")[1:]]
    assert scripts
    assert all("src=" in script or 'type="application/json"' in script for script in scripts)
    assert "style=" not in page
    assert "onclick" not in page


def test_the_windows_are_those_of_the_statistics(bob: User) -> None:
    """All twelve, in order, to choose from and as columns."""
    assert list(overview.WINDOWS) == list(WINDOWS)
    page = may(bob, "view_monitoring").get("/monitoring/").content.decode()
    assert [part.split('"')[0] for part in page.split('name="window" value="')[1:]] == list(WINDOWS)
    assert [part.split('"')[0] for part in page.split('data-window="')[1:]] == list(WINDOWS)


def test_the_rule_that_is_missing_is_filled_in_for_who_may_add_it(bob: User) -> None:
    """For nobody else: the form would refuse them."""

    def offered() -> str:
        request = RequestFactory().get("/monitoring/")
        request.user = User.objects.get(pk=bob.pk)
        return pages.add_rule_url(request, "/__sys__/cluster", "why")

    assert offered() == ""
    bob.user_permissions.add(Permission.objects.get(codename="add_rule"))
    assert offered() == "", "no staff: the admin is closed"
    bob.is_staff = True
    bob.save()
    url = urlsplit(offered())
    assert url.path == "/admin/entitlement/rule/add/"
    assert parse_qs(url.query)["pattern"] == ["/__sys__/cluster"]
    form = may(bob).get(offered()).context["adminform"].form
    assert (form["pattern"].value(), str(form["user"].value())) == ("/__sys__/cluster", str(bob.pk))
    assert (form["action"].value(), form["effect"].value()) == ("subscribe", "allow")


def test_what_scripts_ask_for_is_refused_in_json(bob: User) -> None:
    """401 without a session, 403 without the permission, 400 for what makes no sense."""
    url = "/monitoring/data/attention/"
    assert (Client().get(url).status_code, Client().get(url).json()) == (401, {"detail": "you are signed out"})
    assert may(bob).get(url).status_code == 403
    assert "view_monitoring" in may(bob).get(url).json()["detail"]
    client = may(bob, "view_monitoring")
    assert client.get(url, {"by": "name"}).status_code == 400
    assert client.post(url).status_code == 405


def test_an_action_wants_both_permissions_and_a_post(bob: User) -> None:
    """To operate without seeing is nothing, and to see is not to operate."""

    @pages.action
    def act(request: HttpRequest) -> HttpResponse:
        pages.note(request, "9.1.2", "disconnected: too slow")
        return HttpResponse("done")

    def status(*names: str, method: str = "post") -> int:
        bob.user_permissions.set(Permission.objects.filter(codename__in=names))
        request = getattr(RequestFactory(), method)("/monitoring/act/")
        request.user = User.objects.get(pk=bob.pk)
        return act(request).status_code

    assert status() == 403
    assert status("operate_monitoring") == 403
    assert status("view_monitoring") == 403
    assert status("view_monitoring", "operate_monitoring", method="get") == 405
    assert LogEntry.objects.count() == 0
    assert status("view_monitoring", "operate_monitoring") == 200
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr, entry.change_message) == (bob, "9.1.2", "disconnected: too slow")
    assert entry.content_type is not None
    assert entry.content_type.model == "monitoring"


def row(subject: str, rate: float, subscribers: int, deliveries: float) -> dict[str, Any]:
    """A row of the answer to ``top``."""
    return {
        "subject": subject,
        "messages_per_s": rate,
        "bytes_per_s": rate * 100,
        "subscribers": subscribers,
        "deliveries_per_s": deliveries,
    }


def test_the_busiest_subjects_of_several_nodes_are_made_one_list() -> None:
    """Nodes on one Redis deliver the same messages, each to its own clients: only subscribers and deliveries add up."""
    answers = [
        NodeAnswer(0, "a", {"shared": True, "subjects": [row("/x", 10, 3, 30), row("/y", 9, 1, 9)]}),
        NodeAnswer(1, "b", {"shared": True, "subjects": [row("/x", 9.5, 2, 19), row("/z", 50, 0, 0)]}),
        NodeAnswer(2, "c", error="away"),
    ]
    found = attention.busiest_subjects(answers, "messages_per_s")
    assert [one["subject"] for one in found] == ["/z", "/x", "/y"]
    assert found[1] == row("/x", 10, 5, 49)
    assert [one["subject"] for one in attention.busiest_subjects(answers, "subscribers")] == ["/x", "/y", "/z"]
    many = [NodeAnswer(0, "a", {"subjects": [row(f"/s/{n:03}", n, 0, 0) for n in range(100)]})]
    assert [one["messages_per_s"] for one in attention.busiest_subjects(many, "messages_per_s")] == list(
        range(99, 84, -1)
    )


def test_publishers_who_wait_for_an_acknowledgement_come_first() -> None:
    """The longest first, then the busiest, of all nodes; the total counts those not shown too."""
    first = {"publishers": [{"publisher": "quick", "oldest_ms": 0, "messages_per_s": 500}], "total": 40}
    other = {
        "publishers": [
            {"publisher": "late", "oldest_ms": 900, "messages_per_s": 1},
            {"publisher": "idle", "oldest_ms": 0, "messages_per_s": 0},
        ],
        "total": 2,
    }
    found = attention.publisher_rows([NodeAnswer(0, "a", first), NodeAnswer(1, "b", other)])
    assert [(one["publisher"], one["node_name"]) for one in found["publishers"]] == [
        ("late", "b"),
        ("quick", "a"),
        ("idle", "b"),
    ]
    assert found["total"] == 42


@pytest.mark.parametrize(("shared", "arrived"), [(False, 199), (True, 100)])
def test_figures_over_all_nodes_are_those_that_come_live(shared: bool, arrived: float) -> None:
    """On one engine the nodes deliver the same messages, otherwise each its own; bytes are always added up."""
    one = {"connections": 3, "messages_in_per_s": 100, "bytes_in_per_s": 7}
    each: list[dict[str, float]] = [one, {"messages_in_per_s": 99, "bytes_in_per_s": 5}, {}]
    states = [
        nodes.State(name, {"shared": shared} if told else {}, told) for name, told in zip("abc", each, strict=True)
    ]
    told = {"connections": 3, "messages_in_per_s": arrived, "bytes_in_per_s": 12, "nodes": 2}
    assert attention.sums(states) == told == figures.cluster((one, shared) for one in each)


def test_the_page_as_it_comes_first_adds_up_as_the_live_figures_do(bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that two nodes on one engine have in common are not doubled in the table of nodes."""
    told = {"connections": 3, "messages_in_per_s": 100.0}
    states = [nodes.State(address, {"shared": True}, told) for address in (*conf.controls, "b.sock")]
    monkeypatch.setattr(nodes, "states", lambda: states)
    page = may(bob, "view_monitoring").get("/monitoring/").content.decode()
    foot = page[page.index("<tfoot>") : page.index("</tfoot>")]
    assert 'data-cell="connections">6<' in foot
    assert 'data-cell="messages_in_per_s">100<' in foot


def test_what_the_overview_asks_for(bob: User, node: Sidecar, settings: Any, tmp_path: Path) -> None:
    """Subjects, publishers and figures of the node that answers; one that is away is named, and holds nothing up."""
    away = str(tmp_path / "away.sock")
    settings.REALTIME = settings.REALTIME | {"CONTROL": [away, node.control]}
    client = may(bob, "view_monitoring")
    host, _, port = node.publisher_url.rpartition(":")
    with WireClient(node) as reader, Publisher(f"{host}:{port}", publisher="desk") as publisher:
        reader.subscribe(SUBJECT)
        publisher.send_batch([[SUBJECT, "1"]])
        publisher.flush()

        def answer() -> Any:
            found = client.get("/monitoring/data/attention/", {"by": "subscribers"}).json()
            named = [one["subject"] for one in found["top"]]
            # Who was connected before may just be leaving.
            return found if SUBJECT in named and found["sums"].get("connections") == 1 else None

        found = until(answer)
    assert next(one for one in found["top"] if one["subject"] == SUBJECT)["subscribers"] == 1
    (desk,) = found["publishers"]["publishers"]
    assert desk["publisher"].startswith("desk:")
    assert (desk["unacknowledged"], desk["node_name"]) == (0, node.control)
    assert found["slow"] == {"clients": [], "total": 0}
    assert [one["node"] for one in found["nodes"]] == [away, node.control]
    assert found["nodes"][0]["error"]
    assert "figures" in found["nodes"][1]
    assert found["nodes"][1]["workers"][0]["worker"] == 0
    assert found["sums"]["connections"] == found["nodes"][1]["figures"]["connections"] == 1
    assert len(found["errors"]) == 1
    assert found["errors"][0].startswith(f"{away}: ")


def test_missing_triggers_are_an_alarm(bob: User, node: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": node.control}
    client = may(bob, "view_monitoring")

    def alarms() -> list[str]:
        found: list[str] = client.get("/monitoring/data/attention/").json()["alarms"]
        return found

    with Control(node.control) as agent:
        agent.rights("", 3)
        [alarm] = until(alarms)
        assert alarm.startswith("3 triggers of the database are missing.")
        agent.rights("", 0)
        until(lambda: not alarms())
