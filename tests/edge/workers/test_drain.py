"""A node sends its clients elsewhere: in turns, in order, with nothing lost, and no longer than it is asked to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.listen_address import SettingsError
from fastpath.settings import Settings
from tests.support.certificates import Certificate
from tests.support.edge.draining import OTHERS, SERVERS, SUBJECT, Seen, accepts, clients_of
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@contextmanager
def publishing(sidecar: Sidecar) -> Iterator[list[int]]:
    """Rising numbers come through the control socket all the while; those that were acknowledged."""
    over = threading.Event()
    published: list[int] = []

    def publish() -> None:
        with Control(sidecar.control) as control:
            while not over.wait(0.002):
                number = len(published) + 1
                control.publish([[SUBJECT, str(number)]])
                published.append(number)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield published
    finally:
        over.set()
        thread.join(PATIENCE_SECONDS)


def test_clients_go_in_turns_and_resume_without_loss() -> None:
    # Whatever is published while it takes longer is cached.
    with Sidecar(cache_messages=100_000) as sidecar, ExitStack() as stack, Control(sidecar.control) as control:
        clients = clients_of(sidecar, stack, 30)
        with publishing(sidecar) as published:
            assert control.call("drain", {"per_second": 50, "servers": OTHERS}) == {"clients": 30}
            assert control.hello()["draining"]
            assert not accepts(sidecar)
            seen = [Seen(client) for client in clients]
            control.call("undrain")
            assert not control.hello()["draining"]
            until(lambda: accepts(sidecar))
            until(lambda: len(published) > seen[-1].contents[-1])  # so that the last one has missed something, too
        for one in seen:
            assert (one.code, one.notice and one.notice["servers"]) == (4000, OTHERS)
            assert one.contents == list(range(one.contents[0], one.contents[0] + len(one.contents)))
        last = [one.contents[-1] for one in seen]
        assert last == sorted(last)
        assert last[0] < last[-1], "in turns: who is told later hears more"
        for one in (seen[0], seen[-1]):
            with WireClient(sidecar) as again:
                epoch = control.hello()["epoch"]
                [result] = again.subscribe(SUBJECT, since={SUBJECT: [epoch, one.positions[-1]]})
                assert result["recovery"] == "recovered"
                missed = [str(number) for number in published[one.contents[-1] :]]
                assert again.texts(result["messages"]) == missed
                assert again.quiet()


def test_it_can_be_called_off_and_those_who_were_not_told_stay() -> None:
    with Sidecar() as sidecar, ExitStack() as stack, Control(sidecar.control) as control:
        first, *others = clients_of(sidecar, stack, 20)
        with WirePublisher(sidecar) as publisher:
            control.call("drain", {"per_second": 1, "servers": OTHERS})
            assert publisher.closed()[0] == 4000
        assert Seen(first).code == 4000
        left = control.call("undrain")["clients"]
        assert 0 < left < 20
        for client in others[: 19 - left]:
            assert Seen(client).code == 4000, "it had been told already"
        until(lambda: accepts(sidecar))
        control.publish([[SUBJECT, "7"]])
        for client in others[19 - left :]:
            assert client.texts(1) == ["7"]
            assert client.quiet()
        assert "Traceback" not in sidecar.log


def test_told_to_stop_it_drains_for_so_long_then_all_go_at_once() -> None:
    with Sidecar(servers=SERVERS, drain_per_second=1, drain_seconds=2) as sidecar, ExitStack() as stack:
        clients = clients_of(sidecar, stack, 8)
        os.kill(sidecar.pid, signal.SIGTERM)
        with Control(sidecar.control) as control:  # so that what is revoked now is still cut
            until(lambda: control.hello()["draining"])
            control.publish([[SUBJECT, "8"]])
        first = Seen(clients[0])
        assert first.notice is not None
        assert first.notice["servers"] == OTHERS
        late = [Seen(client) for client in clients[-3:]]
        assert [(one.code, one.contents, one.notice) for one in late] == [(4000, [8], None)] * 3
        for client in clients[1:-3]:
            Seen(client)
        assert sidecar.process is not None
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0
        assert "see FASTPATH_DRAIN_SECONDS" in sidecar.log


def test_a_second_signal_ends_the_drain() -> None:
    with Sidecar(servers=SERVERS, drain_per_second=1, drain_seconds=60) as sidecar, ExitStack() as stack:
        clients = clients_of(sidecar, stack, 20)
        os.kill(sidecar.pid, signal.SIGTERM)
        assert Seen(clients[0]).code == 4000
        process = sidecar.process
        assert process is not None

        def told() -> bool:
            """As often as somebody would press the keys: what comes within a moment is one signal."""
            os.kill(sidecar.pid, signal.SIGTERM)
            return "stopping: " in sidecar.log

        until(told)
        rest = [Seen(client) for client in clients[1:]]
        assert [one.code for one in rest] == [4000] * 19
        assert rest[-1].notice is None, "before its turn"
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    """A service manager sends it to all processes of a group, and the parent hands it on."""
    with Sidecar(servers=SERVERS, drain_per_second=5, drain_seconds=60) as sidecar, ExitStack() as stack:
        clients = clients_of(sidecar, stack, 4)
        for _ in range(50):
            os.kill(sidecar.pid, signal.SIGTERM)
        assert all(Seen(client).notice is not None for client in clients), "each in its turn"


def test_what_waits_for_a_slow_client_comes_before_the_notice() -> None:
    with Sidecar() as sidecar, Control(sidecar.control) as control:
        with WireClient(sidecar, receive_bytes=4096) as slow:
            slow.subscribe(SUBJECT)
            for number in range(30):
                control.publish([[SUBJECT, f"{number:>100000}"]])
            control.call("drain", {"servers": OTHERS})
            until(lambda: "client closed" in sidecar.log)
            seen = Seen(slow)
        assert seen.contents == list(range(30))
        assert seen.notice is not None


def test_over_tls_too(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    listen = f"{certificate.url('clients')},{certificate.url('publishers')}"
    with Sidecar(listen=listen) as sidecar, Control(sidecar.control) as control:
        context = certificate.trusting()
        with WireClient(sidecar, tls=context) as client, WirePublisher(sidecar, tls=context) as publisher:
            client.subscribe(SUBJECT)
            publisher.publish([SUBJECT, "1"])
            control.drain(servers=OTHERS)
            seen = Seen(client)
            assert (seen.contents, seen.code, seen.notice is not None) == ([1], 4000, True)
            assert publisher.closed()[0] == 4000
        control.undrain()
        until(lambda: "accepting again" in sidecar.log)
        with WireClient(sidecar, tls=context) as client, WirePublisher(sidecar, tls=context):
            assert client.subscribe(SUBJECT)[0]["sid"]
        assert "Traceback" not in sidecar.log


@pytest.mark.parametrize("servers", ["http://b/ws", "ws://b/ws 101", "ws://b/ws 1 2", "ws://b/ws -1"])
def test_servers_that_cannot_be_read_are_refused(servers: str) -> None:
    with pytest.raises(SettingsError, match="FASTPATH_SERVERS"):
        Settings(mode="none", servers=servers)


def test_the_servers_setting_is_a_list_with_weights() -> None:
    assert Settings(mode="none", servers=SERVERS).drain_servers == [tuple(server) for server in OTHERS]
    assert Settings(mode="none").drain_servers == []


def test_a_weight_out_of_range_is_refused_by_control(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control, pytest.raises(Exception, match="0 to 100"):
        control.call("drain", {"servers": [["ws://b/ws", 101]]})
    assert accepts(sidecar)
