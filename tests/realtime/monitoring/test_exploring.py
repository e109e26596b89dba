"""The pages that explore: clients, one client, subjects and traces, over real nodes and by Django's permissions."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.test import Client, RequestFactory
from django.urls import reverse

from fastpath.client.control.client import Control
from realtime.monitoring import clients, questions
from realtime.nodes.control_sockets import control
from realtime.templatetags import monitoring as filters
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.django_db

HOST = {"host": "localhost:8000"}


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A node in which everybody may do everything."""
    with Sidecar(ping_seconds=60) as sidecar:
        yield sidecar


@pytest.fixture
def node(running: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """The same, known to Django."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    with control():
        yield running


@pytest.fixture
def operator() -> Client:
    """A browser of somebody who may see and operate."""
    return _browser("olga", "view_monitoring", "operate_monitoring")


def _browser(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client(headers=HOST)
    browser.force_login(user)
    return browser


def _connection(client: Client, query: str) -> str:
    """The only client of the list."""
    page = client.get(f"/monitoring/clients/?{query}").content.decode()
    found = re.findall(r'href="/monitoring/clients/0/([^/"]+)/"', page)
    assert len(found) == 1, page
    return str(found[0])


def _plain(page: str) -> None:
    """A strict content security policy would let it work: no script, style or handler stands in the page itself."""
    assert not re.findall(r"<script(?![^>]*(?: src=|application/json))", page)
    assert not re.findall(r"<style|<[^>]+ (?:style|on[a-z]+)=", page)


def _noted() -> list[tuple[str, str]]:
    return [(entry.object_repr, entry.change_message) for entry in LogEntry.objects.order_by("pk")]


def test_who_may_see_and_who_may_operate(node: Sidecar) -> None:
    """Pages ask to sign in; what changes something needs the other permission, is no GET, and has no button without."""
    pages = ["monitoring_clients", "monitoring_subjects", "monitoring_trace"]
    actions = ["monitoring_ping", "monitoring_disconnect", "monitoring_publish"]
    actions += ["monitoring_trace_begin", "monitoring_trace_stop"]
    nobody, outsider, viewer = Client(headers=HOST), _browser("out"), _browser("vera", "view_monitoring")
    for page in map(reverse, pages):
        assert nobody.get(page)["Location"] == f"/accounts/login/?next={page}"
        assert outsider.get(page).status_code == 403
        answer = viewer.get(page)
        assert answer.status_code == 200
        assert b'method="post"' not in answer.content.replace(b'class="sign-out" method="post"', b"")
        _plain(answer.content.decode())
    for data in map(reverse, ["monitoring_data_tree", "monitoring_data_trace"]):
        assert (nobody.get(data).status_code, outsider.get(data).status_code) == (401, 403)
        assert viewer.get(data).status_code == 200
    for action in map(reverse, actions):
        assert (nobody.post(action).status_code, viewer.post(action).status_code) == (401, 403)
        assert _browser(f"half{action}", "operate_monitoring").post(action).status_code == 403
        assert viewer.get(action).status_code == 405
    with WireClient(node) as client:
        client.subscribe("/seen/a")
        page = viewer.get(f"/monitoring/clients/0/{_connection(viewer, 'subject=/seen/a')}/").content.decode()
        assert "Disconnect now" not in page
        assert "/seen/a" in page
        assert "Publish a test" not in viewer.get("/monitoring/subjects/?subject=/seen/a").content.decode()
    assert _noted() == []


def test_clients_are_searched_and_paged(node: Sidecar, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """By subject and address; a page at a time; what is no pattern is said."""
    monkeypatch.setattr("realtime.monitoring.clients.ROWS", 2)
    found = [WireClient(node) for _ in range(5)]
    try:
        for number, client in enumerate(found):
            client.subscribe("/many/all", f"/many/{number}")
        _connection(operator, "subject=/many/3&address=127.0")
        page = operator.get("/monitoring/clients/?subject=/many/3&address=10.").content.decode()
        assert "No client is like that." in page
        seen, query = [], "subject=/many/all"
        while query:
            page = operator.get(f"/monitoring/clients/?{query}").content.decode()
            assert "5 clients found" in page
            seen += re.findall(r'href="/monitoring/clients/0/([^/"]+)/"', page)
            following = re.search(r'rel="next" href="\?([^"]+)"', page)
            query = following[1].replace("&amp;", "&") if following else ""
        assert len(seen) == len(set(seen)) == 5
        assert "only one segment" in operator.get("/monitoring/clients/?subject=/many").content.decode()
        assert operator.get("/monitoring/clients/?slow=on&after=x:y").status_code == 200
    finally:
        for client in found:
            client.sock.close()


def test_one_client_its_latency_and_its_end(node: Sidecar, operator: Client) -> None:
    """All that is known of it; a ping is answered; the reason of the disconnection reaches it, and the admin's log."""
    with WireClient(node) as client, Control(node.control) as control:
        client.subscribe("/one/a", conflation=500)
        control.publish([["/one/a", "<b>193</b>", {"bid": b"\0\1"}]])
        client.message()
        connection = _connection(operator, "subject=/one/a")
        page = operator.get(f"/monitoring/clients/0/{connection}/").content.decode()
        for words in ("Anonymous", "127.0.0.1", "/one/a", "each 500 ms", "&lt;b&gt;193&lt;/b&gt;", "2 bytes: 00 01"):
            assert words in page
        _plain(page)
        ask = {"node": "0", "connection": connection}
        response = _ping(operator, client, ask)
        assert response.status_code == 200
        assert 0 < json.loads(response.content)["ms"] < 5000
        answer = operator.post("/monitoring/clients/disconnect/", ask | {"reason": "maintenance"})
        assert answer["Location"] == "/monitoring/clients/"
        assert client.closed() == (4506, "closed_by_operator")
    assert [thing for thing, _ in _noted()] == [f"client {connection} of nobody signed in"] * 2
    assert re.fullmatch(r"pinged: \d+\.\d ms", _noted()[0][1])
    assert _noted()[1][1] == "disconnected 1 connection: maintenance"
    gone = operator.get(f"/monitoring/clients/0/{connection}/")
    assert (gone.status_code, b"not connected any more" in gone.content) == (404, True)
    assert operator.get("/monitoring/clients/7/0.1.1/").status_code == 404


def _ping(browser: Client, client: WireClient, ask: dict[str, str]) -> Any:
    """Ping as the page's script does, while the client reads: it answers pings while it waits for something else."""
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            client.answer("pong", client.say("ping"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        return browser.post("/monitoring/clients/ping/", ask, headers={"accept": "application/json"})
    finally:
        done.set()
        reader.join()


@pytest.mark.django_db(transaction=True)
def test_a_subject_and_a_test_message(node: Sidecar, operator: Client) -> None:
    """Its place in the tree, snapshot, history page by page; a publication by hand is noted, and refused in words."""
    with Control(node.control) as control, WireClient(node) as client:
        client.subscribe("/desk/a/b")
        control.publish([["/desk/a/b", str(number), {"bid": str(number)}] for number in range(25)])
        page = operator.get("/monitoring/subjects/?subject=/desk/a/b").content.decode()
        assert re.search(r'aria-current="true">b</a>', page)
        assert re.search(r'<dd id="position">\d+/25</dd>', page)
        assert re.search(r'id="subscribers"><a [^>]+>1</a>', page)
        assert '<p class="content" id="snapshot-content">24</p>' in page
        _plain(page)
        older = operator.get("/monitoring/subjects/?subject=/desk/a/b&before=6").content.decode()
        assert re.findall(r'<td class="number nowrap">\d+/(\d+)', older) == ["5", "4", "3", "2", "1"]
        assert re.findall(r'<td class="number nowrap">\d+/(\d+)', page) == [str(seq) for seq in range(25, 5, -1)]
        assert 'href="?subject=%2Fdesk%2Fa%2Fb&amp;before=6">Older</a>' in page
        publish = {"subject": "/desk/a/b", "content": "by hand\r\ntwice", "fields": "bid = 1\r\n\r\nask=a=b"}
        assert operator.post("/monitoring/subjects/publish/", publish).status_code == 302
        until(lambda: client.message()[3] == "by hand\ntwice")
        snapshot = control.call("subject", {"subject": "/desk/a/b"})["snapshot"]
        assert snapshot["content"] == "24", "it is not retained unless that is asked for"
        operator.post("/monitoring/subjects/publish/", publish | {"retained": "on", "binary": "on", "content": "AP8="})
        until(lambda: client.message()[3] == {"b": "AP8="})
        snapshot = control.call("subject", {"subject": "/desk/a/b"})["snapshot"]
        assert snapshot["fields"] == {"bid": "1", "ask": "a=b"}
        control.publish([["/desk/a/b", "", None, {"removed": True}]])
        assert control.call("subject", {"subject": "/desk/a/b"})["snapshot"] is None
        page = operator.get("/monitoring/subjects/?subject=/desk/a/b").content.decode()
        assert "snapshot-content" not in page
        assert re.findall(r'<td class="content"><span class="soft">(\w+)</span></td>', page) == ["removed"]
    assert [name for name, _ in _noted()] == ["/desk/a/b", "/desk/a/b"]
    assert re.fullmatch(r"published a test message as \d+/26, not retained", _noted()[0][1])
    for wrong, words in (
        ({"subject": "/__sys__/stats"}, "the server’s|the server&#x27;s"),
        ({"subject": "/desk"}, "only one segment"),
        ({"subject": "/desk/a", "content": "no!", "binary": "on"}, "no base64"),
        ({"subject": "/desk/a", "content": "", "fields": " \r\n"}, "it is empty"),
        ({"subject": "/desk/a", "fields": "nothing"}, "name=value"),
    ):
        answer = operator.post("/monitoring/subjects/publish/", {"content": "kept"} | wrong)
        page = answer.content.decode()
        assert answer.status_code == 400
        assert re.search(words, page), wrong
    assert ">kept</textarea>" in page
    assert len(_noted()) == 2


def test_the_tree_level_by_level(node: Sidecar, operator: Client) -> None:
    """A level is a page of its own; a chosen subject is on its page however many stand before it."""
    with Control(node.control) as control:
        control.publish([[f"/wide/{number:03}/x", "1"] for number in range(250)])
    level = operator.get("/monitoring/data/tree/?prefix=/wide").content.decode()
    assert (level.count("<li"), "100 of 250" in level, 'data-turn="099"' in level) == (101, True, True)
    level = operator.get("/monitoring/data/tree/?prefix=/wide&after=199&begins=2").content.decode()
    assert (level.count('class="node"'), "50 of 50" in level) == (50, True)
    page = operator.get("/monitoring/subjects/?subject=/wide/240/x").content.decode()
    assert 'aria-label="Below /wide/240"' in page
    assert 'aria-current="true">x</a>' in page
    renewed = operator.get("/monitoring/subjects/?subject=/wide/240/x", headers={"x-live": "1"}).content.decode()
    assert "Below /wide" not in renewed, "what brings itself up to date does not ask for the tree again"
    assert 'id="snapshot-content">1<' in renewed
    page = operator.get("/monitoring/subjects/?open=/wide/001").content.decode()
    assert page.count('aria-expanded="true"') == 2
    assert 'href="/monitoring/subjects/?subject=%2Fwide%2F001%2Fx"' in page
    assert "This is no subject" in operator.get("/monitoring/subjects/?subject=wide").content.decode()
    page = operator.get("/monitoring/subjects/?subject=/no/such").content.decode()
    assert "Nobody has published" in page
    assert 'data-turn=""' not in page, "the tree is shown from its beginning"


def test_a_trace_from_begin_to_end(node: Sidecar, operator: Client) -> None:
    """Events come as they happen, once each, until it is stopped; it is noted."""
    answer = operator.post("/monitoring/trace/begin/", {"what": "subject", "name": "/traced/*", "seconds": "30"})
    trace = re.search(r"&t=(0%3A[^&]+)$", answer["Location"])
    assert trace, answer["Location"]
    assert operator.get(answer["Location"]).status_code == 200
    after = 0
    events: list[dict[str, Any]] = []

    def look() -> dict[str, Any]:
        nonlocal after
        response = operator.get(f"/monitoring/data/trace/?t={trace[1]}%3A{after}")
        assert response.status_code == 200, response.content
        found: dict[str, Any] = json.loads(response.content)
        events.extend(found["events"])
        after = max((event["n"] for event in events), default=0)
        return found

    with WireClient(node) as client, Control(node.control) as control:
        client.subscribe("/traced/a")
        control.publish([["/traced/a", "1"]])
        until(lambda: look() and {"subscribed", "published", "delivered"} <= {event["event"] for event in events})
    assert len({event["n"] for event in events}) == len(events)
    assert all(event["node"] == 0 for event in events)
    stop = operator.post("/monitoring/trace/stop/", {"t": trace[1].replace("%3A", ":")})
    assert json.loads(stop.content) == {"errors": []}
    until(lambda: look()["ended"].get("0"))
    name = trace[1].removeprefix("0%3A")
    assert _noted() == [("subject /traced/*", f"traced for 30 s as {name}"), (f"trace {name}", "ended")]
    digits = "0" * 4999 + "9"  # more than Python makes a number of
    for wrong in (
        {"what": "all"},
        {"seconds": "61"},
        {"seconds": "x"},
        {"seconds": digits},
        {"what": "connection", "node": "9"},
        {"what": "connection", "node": digits},
    ):
        form = {"what": "user", "name": "bob", "seconds": "10"} | wrong
        assert operator.post("/monitoring/trace/begin/", form).status_code == 400
    for form, words in (
        ({"what": "subject", "name": "/bad", "seconds": "10"}, "only one segment"),
        ({"what": "user", "name": " ", "seconds": "10"}, "is empty"),
        ({"what": "user", "name": "x" * 513, "seconds": "10"}, "longer than 512"),
        ({"what": "connection", "name": "0.1.1", "node": "0", "seconds": "10"}, "banner problem"),
    ):
        assert words in operator.post("/monitoring/trace/begin/", form, follow=True).content.decode()
    for query in ("t=x", "t=0:x:y", "t=9:1:0", "t=-1:1:0", f"t={digits}:1:0", f"t=0:1:{digits}", f"t=0:1:{1 << 70}"):
        assert operator.get(f"/monitoring/data/trace/?{query}").status_code == 400


def test_groups_and_reasons_are_told_as_the_admin_knows_them() -> None:
    """A group by its name, what is no group's key as it stands; the admin explains rights to who may see the rules."""
    group = Group.objects.create(name="NYSE desk")
    assert clients.group_names([str(group.pk), "9999", "desk-7"]) == ["NYSE desk", "9999", "desk-7"]
    bob = User.objects.create_user("bob")
    request = RequestFactory().get("/")
    request.user = bob
    assert clients.explain_url(request, "bob") == ""
    request.user = User.objects.create_superuser("root")
    page = "/admin/entitlement/rule/explain/?action=subscribe"
    assert clients.explain_url(request, "bob") == f"{page}&user={bob.pk}"
    assert clients.explain_url(request, "") == page
    assert clients.explain_url(request, "an outside issuer's") == ""


def test_values_as_people_read_them() -> None:
    """Times, durations and contents; nothing breaks a page, whatever a publisher sends."""
    for ms, words in ((None, ""), (0, ""), (1795334261412, "2026-11-22 07:57:41.412"), (1 << 62, str(1 << 62))):
        assert re.sub("<[^>]+>", "", filters.moment(ms)) == words
    for seconds, words in ((None, ""), (0.04, "0.0 s"), (9.96, "9 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h")):
        assert filters.duration(seconds) == words
    assert filters.duration(172800) == "2 days"
    assert filters.ago(time.time() * 1000 - 61_000) == "61 s"
    for ms, words in ((None, "–"), (0.04, "0.0 ms"), (12.4, "12 ms"), (1000, "1.0 s")):
        assert filters.milliseconds(ms) == words
    for content, words in (
        ("193", "193"),
        (b"", "0 bytes"),
        ({"b": "AP8="}, "2 bytes: 00 ff"),
        (b"a" * 65, "65 bytes: " + " ".join(["61"] * 64) + " …"),
        ("x" * 2001, "x" * 2000 + " … (2001 characters)"),
    ):
        assert filters.value(content) == words
    assert filters.long("x" * 120) == "x" * 120
    assert filters.long("<" * 121) == f"<details><summary>{'&lt;' * 120} …</summary>{'&lt;' * 121}</details>"


@pytest.mark.slow
def test_a_node_that_is_away_is_named_and_the_others_are_shown(
    node: Sidecar, operator: Client, settings: Any, tmp_path: Any
) -> None:
    """On every page, and one that keeps silent is waited for once."""
    with socket.socket(socket.AF_UNIX) as silent, WireClient(node) as client:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen(16)
        settings.REALTIME = settings.REALTIME | {
            "CONTROL": [str(tmp_path / "none.sock"), node.control, str(tmp_path / "silent.sock")]
        }
        client.subscribe("/away/a")
        with Control(node.control) as control:
            control.publish([["/away/a", "1"]])
        page = operator.get("/monitoring/clients/?subject=/away/a").content.decode()
        assert page.count("did not answer") == 2
        assert 'href="/monitoring/clients/1/' in page
        assert "1 client found" in page
        began = time.monotonic()
        page = operator.get("/monitoring/subjects/?subject=/away/a").content.decode()
        assert page.count("did not answer") == 2
        assert 'aria-current="true">a</a>' in page
        took = time.monotonic() - began
        answer = operator.get("/monitoring/clients/0/0.1.1/")
        assert (answer.status_code, b'id="unanswered"' in answer.content) == (200, True), "it may come back"
        assert took < questions.ANSWER_SECONDS, took


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_nodes_are_one_list(
    node: Sidecar, operator: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages go on at the next node; a user is traced and disconnected on both; a subject is told of each."""
    monkeypatch.setattr("realtime.monitoring.clients.ROWS", 2)
    with Sidecar() as other, ExitStack() as opened:
        settings.REALTIME = settings.REALTIME | {"CONTROL": [node.control, other.control]}
        for where in (node, node, node, other, other):
            opened.enter_context(WireClient(where)).subscribe("/both/a")
        with Control(node.control) as first, Control(other.control) as second:
            first.publish([["/both/a", "first"]])
            second.publish([["/both/a", "second"], ["/both/a", "newer"], ["/both/b", "1"]])
        seen, query = [], "subject=/both/a"
        while query:
            page = operator.get(f"/monitoring/clients/?{query}").content.decode()
            assert "5 clients found" in page
            seen += re.findall(r'href="/monitoring/clients/(\d/[^/"]+)/"', page)
            following = re.search(r'rel="next" href="\?([^"]+)"', page)
            query = following[1].replace("&amp;", "&") if following else ""
        assert [each[0] for each in seen] == ["0", "0", "0", "1", "1"]
        assert len(set(seen)) == 5
        page = operator.get("/monitoring/subjects/?subject=/both/a").content.decode()
        assert re.search(r'id="subscribers"><a [^>]+>5</a>', page)
        assert page.count('aria-label="Below /both"') == 1
        shown = re.search(r'id="snapshot-content">(\w+)<', page)
        links = re.findall(r'href="\?subject=%2Fboth%2Fa&amp;node=(\d)"', page)
        assert len(links) == 1
        page = operator.get(f"/monitoring/subjects/?subject=/both/a&node={links[0]}").content.decode()
        texts = {shown and shown[1], *re.findall(r'id="snapshot-content">(\w+)<', page)}
        assert texts == {"first", "newer"}
        level = operator.get("/monitoring/data/tree/?prefix=/both").content.decode()
        assert re.findall(r'class="segment"[^>]*>(\w+)</a>', level) == ["a", "b"]
        form = {"what": "user", "name": "anybody", "seconds": "10"}
        address = operator.post("/monitoring/trace/begin/", form)["Location"]
        assert len(re.findall(r"&t=([01])%3A", address)) == 2
        publish = {"whom": "user", "user": "nobody-here", "reason": ""}
        page = operator.post("/monitoring/clients/disconnect/", publish, follow=True).content.decode()
        assert "user nobody-here: 0 connections closed" in page
