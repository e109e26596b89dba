"""Several nodes seen from Django: one that is away is passed over, and one that drains takes no more clients."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import SidecarUnavailable
from fastpath.core.protocol.packets import Unpacker, pack
from realtime import PublishFailed, publish
from realtime.nodes import nodes
from realtime.nodes.control_sockets import control
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

SUBJECT = "/stocks/us/IBM"


@pytest.fixture
def pair(settings: Any) -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two nodes in which everybody may do everything, and the relay as what is left."""
    with Sidecar() as one, Sidecar() as other:
        addresses = [one.control, other.control]
        servers = [{"url": "ws://one/ws", "weight": 60, "control": one.control}]
        servers += [{"url": "ws://other/ws", "control": other.control}, {"url": "{web}", "weight": 0}]
        settings.REALTIME = settings.REALTIME | {"CONTROL": addresses, "SERVERS": servers}
        with control():
            yield one, other


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A control socket that takes what it is asked and never answers."""
    path = str(tmp_path / "silent.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(16)
        yield path


def listed() -> list[tuple[str, int]]:
    """What /api/servers/ tells a visitor."""
    response = Client().get("/api/servers/", headers={"host": "localhost:8000"})
    assert response.status_code == 200
    assert response["Cache-Control"] == "public, max-age=1"
    return [(server["url"], server["weight"]) for server in json.loads(response.content)["servers"]]


ONE, OTHER, RELAY = ("ws://one/ws", 60), ("ws://other/ws", 100), ("ws://localhost:8000/ws", 0)


def test_the_server_list_leaves_out_who_drains_and_who_is_away(pair: tuple[Sidecar, Sidecar]) -> None:
    """When none is left, all are told: perhaps clients reach what Django does not."""
    one, other = pair
    assert listed() == [ONE, OTHER, RELAY]
    with Control(one.control) as one_control:
        one_control.drain()
        until(lambda: listed() == [OTHER, RELAY])
        one_control.undrain()
    other.kill()
    until(lambda: listed() == [ONE, RELAY])
    one.kill()
    until(lambda: listed() == [ONE, OTHER, RELAY])


def test_a_node_that_does_not_answer_holds_up_no_page(
    pair: tuple[Sidecar, Sidecar], settings: Any, silent: str
) -> None:
    """It is asked beside the others, and waited for only as long as it is not known to be away."""
    one, _ = pair
    servers = [{"url": "ws://one/ws", "control": one.control}, {"url": "ws://silent/ws", "control": silent}]
    settings.REALTIME = settings.REALTIME | {"CONTROL": [silent, one.control], "SERVERS": servers}
    until(lambda: listed() == [("ws://one/ws", 100)])
    for _ in range(10):
        assert listed() == [("ws://one/ws", 100)]


@pytest.mark.django_db(transaction=True)
def test_publish_goes_to_the_next_node_and_stays_there(pair: tuple[Sidecar, Sidecar]) -> None:
    """A node that is away costs no publication, and one that is back is not needed."""
    one, other = pair
    with WireClient(other) as client:
        client.subscribe(SUBJECT)
        assert publish(SUBJECT, "1") is not None
        one.kill()
        assert publish(SUBJECT, "2") is not None
        one.start()
        assert publish(SUBJECT, "3") is not None
        assert client.texts(2) == ["2", "3"]
        other.kill()
        assert publish(SUBJECT, "4") is not None
        one.kill()
        with pytest.raises(SidecarUnavailable, match=r"c\.sock.*c\.sock"):
            publish(SUBJECT, "5")


def test_a_node_that_does_not_answer_in_time_is_followed_by_the_next(sidecar: Sidecar, silent: str) -> None:
    """And what was sent there already keeps its number, so that a common engine stores it once."""
    with Nodes([silent, sidecar.control], timeout_seconds=1) as both:
        assert both.publish([[SUBJECT, "1"], [SUBJECT, "2", {}, {"retained": False}]])["results"] == [1, 2]
        assert both.snapshot(SUBJECT)["message"]["content"] == "1"
        assert both.publish([[SUBJECT, "3"]])["results"] == [3]


@contextmanager
def node_of_old(path: Path) -> Iterator[None]:
    """A node of a version that does not know the verb ``health``."""
    known: dict[str, Any] = {"hello": {"server": "old", "draining": True}, "stats": {"connections": 7}}
    refusal = {"code": "invalid", "reason": "the verb health is not known"}

    def serve() -> None:
        connection, _ = listening.accept()
        unpacker = Unpacker(1 << 20)
        with connection:
            while data := connection.recv(1 << 16):
                for number, verb, _arguments in unpacker.feed(data):
                    answer = ["ok", known[verb]] if verb in known else ["error", refusal]
                    connection.sendall(pack([number, *answer]))

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(1)
        thread = threading.Thread(target=serve)
        thread.start()
        yield
    thread.join(PATIENCE_SECONDS)


def test_a_node_of_the_version_before_is_not_away(settings: Any, tmp_path: Path) -> None:
    """While nodes are updated one after the other."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": tmp_path / "c.sock"}
    with node_of_old(tmp_path / "c.sock"):
        [state] = nodes.ask_all()
    assert (state.error, state.figures, state.draining, state.reasons) == ("", {"connections": 7}, True, {})


@contextmanager
def answering(path: Path, results: list[Any]) -> Iterator[list[Any]]:
    """A node that answers each publication with the same results; what it was asked to publish."""
    asked: list[Any] = []

    def serve() -> None:
        connection, _ = listening.accept()
        unpacker = Unpacker(1 << 20)
        with connection:
            while data := connection.recv(1 << 16):
                for number, _verb, arguments in unpacker.feed(data):
                    asked.append(arguments)
                    connection.sendall(pack([number, "ok", {"epoch": 7, "results": results}]))

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(1)
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
    thread.join(PATIENCE_SECONDS)


def test_what_one_node_cannot_store_goes_to_the_next_under_its_number(sidecar: Sidecar, tmp_path: Path) -> None:
    """It may have been stored all the same, and then it must not be stored twice."""
    refused = ["unavailable", "no replica has acknowledged"]
    path = tmp_path / "c.sock"
    with answering(path, [3, refused]) as asked, Nodes([path, sidecar.control]) as both:
        answer = both.publish([[SUBJECT, "1"], [SUBJECT, "2"]])
        epoch = both.controls[1].hello()["epoch"]
        assert answer == {"epoch": 7, "results": [3, [epoch, 1]]}
        assert both.snapshot(SUBJECT)["message"]["content"] == "2"
        (given,) = asked
        assert len(given["messages"]) == 2
        same = [[SUBJECT, "2", None, {"id": given["first"] + 1}]]
        again = both.controls[1].publish(same, given["publisher"])
        assert again["results"] == [[epoch, 1]], "it has it under its number"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", ["unavailable", "failed"])
def test_what_no_node_can_store_raises_and_says_what_is_known(settings: Any, tmp_path: Path, code: str) -> None:
    """It is not the message's fault, unlike PublishRefused."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": tmp_path / "c.sock"}
    with answering(tmp_path / "c.sock", [[code, "why"]]), control(), pytest.raises(PublishFailed) as caught:
        publish(SUBJECT, "1")
    assert (caught.value.code, caught.value.reason) == (code, "why")
    assert ("may or may not come" in str(caught.value)) is (code == "unavailable")


def test_the_same_numbers_at_one_node_are_stored_once(sidecar: Sidecar) -> None:
    """What a retry relies on."""
    with Control(sidecar.control) as control:
        row = [SUBJECT, "1", None, {"id": 7}]
        first = control.publish([row], publisher="desk")
        assert control.publish([row], publisher="desk")["results"] == [[first["epoch"], 1]]
        assert control.publish([[SUBJECT, "2", None, {"id": 8}]], publisher="desk")["results"] == [2]


def test_a_node_without_rights_is_passed_over_for_snapshots(sidecar: Sidecar, rules_sidecar: Sidecar) -> None:
    """It has just been started; another one has them."""
    with Nodes([rules_sidecar.control, sidecar.control]) as both:
        both.publish([[SUBJECT, "1"]])
        assert both.snapshot(SUBJECT)["status"] == "none", "the second answers; the first has the message"
    with Nodes([rules_sidecar.control]) as alone:
        assert alone.snapshot(SUBJECT)["status"] == "not_ready"


def command(name: str, *arguments: str) -> str:
    """What it prints."""
    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


def test_the_nodes_are_listed_and_drained_from_the_command_line(pair: tuple[Sidecar, Sidecar]) -> None:
    """By number, address or server id; clients are told of the other node, whose address depends on no page."""
    one, other = pair
    with WireClient(one) as client:
        client.subscribe(SUBJECT)
        lines = command("realtime_nodes").splitlines()
        assert lines[0].split() == ["address", "server", "engine", "epoch", "generation", "clients", "draining"]
        address, server, engine, _, generation, clients, draining = lines[1].split()
        assert (address, engine, generation, clients, draining) == (one.control, "memory", "-", "1", "no")
        assert lines[3] == "2 of 2 nodes, 1 clients"
        assert "Draining 1 clients" in command("realtime_drain", server, "--wait", "10")
        assert client.answer("notice")["servers"] == [["ws://other/ws", 100]]
    assert command("realtime_nodes").splitlines()[1].split()[-1] == "yes"
    assert "accepts clients again" in command("realtime_drain", "1", "--undo")
    other.kill()
    assert f"{other.control}  away: " in command("realtime_nodes")
    with pytest.raises(CommandError, match="is none of the nodes"):
        command("realtime_drain", "3")


@pytest.mark.django_db
def test_the_monitoring_page_shows_each_node_and_the_sum(pair: tuple[Sidecar, Sidecar], client: Client) -> None:
    """And says which is away."""
    one, other = pair
    client.force_login(User.objects.create_user("root", is_staff=True, is_superuser=True))
    with WireClient(one), WireClient(other):
        page = until(lambda: _page(client) if 'data-cell="connections">2<' in _page(client) else "")
    assert "All nodes" in page
    assert f'<th scope="row" title="{nodes.states()[0].hello["server"]}">{one.control}</th>' in page
    other.kill()
    until(lambda: "away: " in _page(client))


@pytest.mark.django_db
def test_who_may_drain_and_what_is_noted(pair: tuple[Sidecar, Sidecar], client: Client) -> None:
    """Staff with the permission; each time is in the admin's log."""
    one, _ = pair
    staff = User.objects.create_user("sam", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    client.force_login(staff)
    assert "Drain node" not in _page(client)
    assert client.post("/monitoring/drain/", {"node": one.control}).status_code == 403
    staff.user_permissions.add(Permission.objects.get(codename="drain_node"))
    assert "Drain node" in _page(client)
    assert client.post("/monitoring/drain/", {"node": "/etc/passwd"}).status_code == 400
    assert client.get("/monitoring/drain/").status_code == 405
    with Control(one.control) as one_control:
        for data, draining in (({}, True), ({"undo": "1"}, False)):
            assert client.post("/monitoring/drain/", {"node": one.control} | data).status_code == 302
            assert one_control.hello()["draining"] is draining
    noted = LogEntry.objects.filter(user=staff).order_by("pk")
    assert [entry.change_message for entry in noted] == ["draining, 0 clients", "no longer draining, 0 clients"]
    assert {entry.object_repr for entry in noted} == {one.control}


def _page(client: Client) -> str:
    return client.get("/monitoring/", headers={"host": "localhost:8000"}).content.decode()
