"""A connection has one name, by which log, audit, hook, trace and the verbs of the operator's pages call it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.audit import Written
from tests.support.edge.operators import Reader
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.hook import Answering, enter, named, no
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identity")


@pytest.fixture(scope="module")
def told(folder: Path) -> Iterator[Sidecar]:
    """A sidecar that tells everybody everything."""
    with Sidecar(
        mode="custom",
        audit="access,message",
        audit_folder=folder / "audit",
        log_level="info,publishers=debug",
        log_file=folder / "log",
        log_format="json",
    ) as sidecar:
        yield sidecar


def line(folder: Path, **values: Any) -> dict[str, Any]:
    """The one line of the log with these values."""

    def found() -> list[dict[str, Any]]:
        if not (folder / "log").exists():
            return []
        texts = (folder / "log").read_text().splitlines(keepends=True)
        lines = [json.loads(text) for text in texts if text.endswith("\n")]  # whole ones
        return [one for one in lines if values.items() <= one.items()]

    [one] = until(found)
    return one


def test_a_client(told: Sidecar, folder: Path) -> None:
    written = Written(folder / "audit")
    with Control(told.control) as control, Answering(told.control, named) as hook:
        with enter(told, "ann") as client:
            [row] = control.clients(user="ann")["clients"]
            name = row["connection"]
            reader = Reader(control, connection=name)
            client.ask("publish", "published", subject="/s/a", content="1", closure="c")
            reader.end()
            assert {event["connection"] for event in reader.events} == {name}
            for event in ("connected", "renewed"):
                assert written.find(event=event, address="127.0.0.1")["connection"] == name
            assert written.find(event="published", user="ann")["connection"] == name
            assert hook.wait("connect")["connection"].partition("-")[2] == name
        assert written.find(event="disconnected", user="ann")["connection"] == name
        assert line(folder, event="client closed", user="ann")["connection"] == name


def test_a_publisher(told: Sidecar, folder: Path) -> None:
    written = Written(folder / "audit")
    with Control(told.control) as control, Answering(told.control, named) as hook:
        with WirePublisher(told, "feed", publisher="prices") as publisher:
            publisher.publish(["/s/b", "1"])
            [row] = control.publishers()["publishers"]
            name = row["connection"]
            for event in ("publisher_connected", "published"):
                assert written.find(event=event, user="feed")["connection"] == name
            assert hook.wait("connect", kind="publisher")["connection"].partition("-")[2] == name
        assert written.find(event="publisher_disconnected", user="feed")["connection"] == name
        assert line(folder, event="publisher closed", user="feed")["connection"] == name


def test_who_was_never_let_in_has_none_but_an_address(tmp_path: Path) -> None:
    """Its WebSocket is opened only to say why it is closed."""
    with Sidecar(mode="jwt", token_secret="s" * 32, log_file=tmp_path / "log", log_format="json") as sidecar:
        with WireClient(sidecar, path="/ws?token=none") as client, pytest.raises(Ended):
            client.next()
        refused = line(tmp_path, event="client closed")
    assert (refused["code"], refused["connection"], refused["address"]) == (4501, "", "127.0.0.1")


def test_what_the_hook_refuses_is_named_all_the_same(told: Sidecar, folder: Path) -> None:
    """It had connected when the hook was asked."""
    with Answering(told.control, no) as hook, WireClient(told) as client:
        client.say("connect", token="eve")
        with pytest.raises(Ended):
            client.next()
        name = hook.wait("connect")["connection"].partition("-")[2]
    assert line(folder, event="client closed", connection=name)["code"] == 4503
