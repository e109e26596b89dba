"""Clients, pings, ends and traces over two workers: one answer, whichever worker has the connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.protocol.packets import pack
from tests.support.edge.operators import Reader, told
from tests.support.edge.spread import figures_by_worker, kill_worker, spread
from tests.support.edge.wire import PONG
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def pair() -> Iterator[Sidecar]:
    """Two workers; everybody may do everything below /a."""
    with Sidecar(mode="rules", token_secret=SECRET, workers=2) as sidecar:
        load_rights(sidecar.control, rule(1, "everyone", "/a/**"))
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def control(pair: Sidecar) -> Iterator[Control]:
    """A connection of Django's, once nobody of the test before is left."""
    with Control(pair.control) as control:
        until(lambda: control.clients()["total"] == 0)
        yield control


def names(control: Control) -> list[str]:
    """The name of the connection on each worker."""
    return [row["connection"] for row in control.clients()["clients"]]


def test_clients_of_all_workers_in_pages(pair: Sidecar, control: Control) -> None:
    with spread(pair, 2, token=mint("ann")) as ann, spread(pair, 2, token=mint("bob")) as bob:
        for client in (*ann.all, *bob.all):
            client.subscribe("/a/one")
        whole = control.clients(subject="/a/*")
        assert (whole["total"], whole["more"], whole["away"]) == (4, False, [])
        assert [row["worker"] for row in whole["clients"]] == [0, 0, 1, 1]
        pages = [control.clients(limit=1)]
        while pages[-1]["more"]:
            pages.append(control.clients(limit=1, after=pages[-1]["after"]))
        assert [page["clients"][0] for page in pages] == [row | {"subjects": ["/a/one"]} for row in whole["clients"]]
        assert control.subject("/a/one")["subscribers"] == 4


def test_one_of_another_worker(pair: Sidecar, control: Control) -> None:
    """It is looked at, asked for a sign of life, and its user closed everywhere."""
    subject = f"/a/{time.monotonic_ns()}"  # another one at a second try
    with spread(pair, 2, token=mint("ann")) as ann, ThreadPoolExecutor(1) as pool:
        other = ann.others[0]
        other.subscribe(subject, "/b/one")
        control.publish([[subject, "1"]])
        other.message()
        name = names(control)[1]
        found = control.client(name)
        assert told(found, "worker", "user", "subscriptions_total", "waiting_total") == [1, "ann", 1, 1]
        assert [message["content"] for message in found["messages"]] == ["1"]
        asked = pool.submit(control.ping, name)
        payload = b""
        while not payload:
            _, payload = other.next_frame()
        other.frame(PONG, payload)
        took = asked.result()
        assert took > 0
        assert control.disconnect(user="ann", reason="enough") == {"clients": 2, "publishers": 0, "away": []}
        assert [client.closed() for client in ann.all] == [(4506, "closed_by_operator")] * 2
        with pytest.raises(ControlRefused, match="unknown"):
            control.client(name)


def test_a_trace_sees_all_workers(pair: Sidecar, control: Control) -> None:
    """A user on both, and a publication of one that the other delivers."""
    with spread(pair, 2, token=mint("ann")) as ann:
        user, subject = Reader(control, user="ann"), Reader(control, subject="/a/both")
        for client in ann.all:
            client.subscribe("/a/both")
        ann.others[0].ask("publish", "published", subject="/a/both", content="x", closure="1")
        ann.first.message()
        until(lambda: user.read() is not None and user.names().count("message") == 2)
        until(lambda: subject.read() is not None and subject.names().count("delivered") == 2)
        until(lambda: subject.read() is not None and "published" in subject.names())
        for event in ("following", "subscribed", "message"):
            assert [one["worker"] for one in user.events if one["event"] == event].count(1) == 1, event
        assert [one["worker"] for one in user.events if one["event"] == "published"] == [1]
        assert sorted(one["worker"] for one in subject.events if one["event"] == "delivered") == [0, 1]
        assert [one["clients"] for one in subject.events if one["event"] == "delivered"] == [1, 1]
        [published] = [one for one in subject.events if one["event"] == "published"]
        assert told(published, "worker", "user", "seq") == [1, "ann", 1]
        connection = Reader(control, connection=names(control)[1])
        ann.others[0].sock.close()
        until(lambda: connection.read() == [] and connection.ended)
        assert connection.ended == "the connection has ended"
        for reader in (user, subject):
            control.untrace(reader.trace)


@pytest.mark.slow
def test_large_answers_leave_the_link_alone() -> None:
    """However many want to see much of one client at once: its worker stays, and everybody is answered."""
    wide, count = "\U0001f600" * 16_384, 60
    with (
        Sidecar(workers=2, outbox_bytes_max=64 << 20) as sidecar,
        Control(sidecar.control) as control,
        spread(sidecar, 2) as clients,
        socket.socket(socket.AF_UNIX) as peer,
    ):
        other = clients.others[0]
        other.subscribe("/a/wide")
        for _ in range(20):
            control.publish([["/a/wide", wide, {"f": wide}]])
            other.message()
        name = next(row["connection"] for row in control.clients()["clients"] if row["worker"] == 1)
        peer.connect(sidecar.control)
        peer.sendall(b"".join(pack([number, "client", {"connection": name}]) for number in range(count)))
        peer.settimeout(PATIENCE_SECONDS)
        stream = peer.makefile("rb")
        for _ in range(count):
            size = int.from_bytes(stream.read(4))
            assert size < 264 << 10
            answer = msgspec.msgpack.decode(stream.read(size))
            assert answer[1] == "ok" or answer[2]["code"] == "limit", answer
        assert other.ask("ping", "pong")
        assert "over" not in sidecar.log, sidecar.log


@pytest.mark.slow
def test_a_worker_that_is_new_takes_part(pair: Sidecar, control: Control) -> None:
    """Its connections have names that nobody had before, and what is traced is traced there, too."""
    with spread(pair, 2, token=mint("ann")) as ann:
        reader, before = Reader(control, user="ann"), names(control)[1]
        kill_worker(pair, 1, 2)
        with spread(pair, 2, token=mint("ann")) as again:
            after = next(name for name in names(control) if name.startswith("1."))
            assert after != before
            again.others[0].subscribe("/a/again")
            until(lambda: reader.read() is not None and any(_is(event, after) for event in reader.events))
        with pytest.raises(ControlRefused, match="unknown"):
            control.client(before)
        assert ann.first.ask("ping", "pong")
    control.untrace(reader.trace)


def _is(event: dict, connection: str) -> bool:
    return bool(event["event"] == "subscribed" and event["connection"] == connection)


@pytest.mark.slow
def test_a_new_first_worker_knows_of_no_trace(pair: Sidecar) -> None:
    """The others stop following for it."""
    with Control(pair.control) as control, spread(pair, 2, token=mint("ann")) as ann:
        trace = control.trace(subject="/a/**")
        kill_worker(pair, 0, 2)
        with Control(pair.control) as other:
            with pytest.raises(ControlRefused, match="unknown"):
                until(lambda: other.traced(trace) is None)
            load_rights(pair.control, rule(1, "everyone", "/a/**"), generation=9)
            assert ann.others[0].ask("ping", "pong")
            until(lambda: len(figures_by_worker(pair)) == 2)
            assert other.clients()["total"] >= 1
