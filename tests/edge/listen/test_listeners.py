"""Addresses to listen on: TLS, IPv6, several with different purposes, ports in use, and no more files."""

from __future__ import annotations

import resource
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.certificates import Certificate
from tests.support.edge.wire import (
    Ended,
    Socket,
    WireClient,
    WirePublisher,
    open_files,
    request,
    undisturbed,
    wait_gone,
)
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One for all tests of this module."""
    return Certificate(tmp_path_factory.mktemp("tls"))


def has_ipv6() -> bool:
    """Whether ::1 can be listened on here."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
        return True


def test_tls_for_clients_and_publishers(certificate: Certificate) -> None:
    listen = f"{certificate.url('clients')},{certificate.url('publishers')}"
    with Sidecar(listen=listen) as sidecar:
        context = certificate.trusting()
        with WirePublisher(sidecar, tls=context) as publisher, WireClient(sidecar, "msgpack", tls=context) as client:
            client.subscribe("/tls/one")
            big = "x" * 900_000
            assert publisher.publish(["/tls/one", "small"], ["/tls/one", big]) == [1, 2]
            assert client.texts(2) == ["small", big]
            client.say("publish", subject="/tls/one", content=big)
            assert client.texts(1) == [big]
            publisher.packet("nonsense")
            assert publisher.closed()[0] == 4500
            client.frame(2, b"\xc1")
            assert client.closed() == (4500, "bad_message")
            assert client.rest() == b""


def test_one_tls_port_for_both(certificate: Certificate) -> None:
    with Sidecar(listen=certificate.url("clients+publishers")) as sidecar:
        context = certificate.trusting()
        with WirePublisher(sidecar, tls=context) as publisher, WireClient(sidecar, tls=context) as client:
            client.subscribe("/tls/both")
            assert publisher.publish(["/tls/both", "x"]) == [1]
            assert client.texts(1) == ["x"]


def test_tls_refusals_are_told(certificate: Certificate) -> None:
    listen = f"{certificate.url('clients')},{certificate.url('publishers')}"
    with Sidecar(listen=listen, handshake_seconds=1, connections_max=1) as sidecar:
        context = certificate.trusting()
        files = open_files(sidecar.pid)
        with WireClient(sidecar, tls=context) as first:
            first.subscribe("/tls/first")
            with Socket(sidecar.client_url, tls=context) as second:
                assert second.rest().startswith(b"HTTP/1.1 503 ")
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["connections"] == 0)
        with Socket(sidecar.client_url, tls=context) as silent, Socket(sidecar.publisher_url, tls=context) as mute:
            assert silent.rest().startswith(b"HTTP/1.1 408 ")
            assert b"handshake_timeout: no hello in time" in mute.rest()
        with Socket(sidecar.client_url, tls=context) as lost:
            lost.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert lost.rest().startswith(b"HTTP/1.1 404 ")
        with Socket(sidecar.client_url) as plain:
            plain.send(request())
            assert b"HTTP" not in plain.rest()
        with Socket(sidecar.client_url) as half:
            half.send(b"\x16\x03\x01")
            assert half.rest() is not None, "a handshake that does not come in time is cut"
        wait_gone(sidecar, files)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_refused(certificate: Certificate) -> None:
    with Sidecar(listen=certificate.url("clients", "&ciphers=ECDHE%2BAESGCM")) as sidecar:
        old = certificate.trusting()
        old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Socket(sidecar.client_url, tls=old)
        weak = certificate.trusting()
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Socket(sidecar.client_url, tls=weak)
        with WireClient(sidecar, tls=certificate.trusting()) as client:
            assert client.ask("ping", "pong")


def test_ipv6() -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6; what is said then the next test shows")
    with Sidecar(listen="clients://[::1]:0,publishers://[::1]:0") as sidecar:
        assert sidecar.ready["clients"][0].startswith("[::1]:")
        with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
            client.subscribe("/six/one")
            publisher.publish(["/six/one", "x"])
            assert client.texts(1) == ["x"]


def test_a_star_is_every_address() -> None:
    with Sidecar(listen="clients://*:0,publishers://*:0") as sidecar:
        addresses = sidecar.ready["clients"]
        assert addresses[0].startswith("0.0.0.0:")
        assert len(addresses) == (2 if has_ipv6() else 1)
        port = {address.rpartition(":")[2] for address in addresses}
        assert len(port) == 1
        for host in ["127.0.0.1", *(["[::1]"] if has_ipv6() else [])]:
            with WireClient(f"{host}:{next(iter(port))}") as client:
                assert client.ask("ping", "pong")


def test_a_name_stands_for_its_addresses() -> None:
    with Sidecar(listen="clients://localhost:0,publishers://localhost:0") as sidecar:
        for address in sidecar.ready["clients"]:
            with WireClient(address) as client:
                assert client.ask("ping", "pong")


def test_many_listeners_with_different_purposes(certificate: Certificate) -> None:
    plain, both = "clients://127.0.0.1:0", "clients+publishers://127.0.0.1:0"
    listen = f"{plain},{both},{certificate.url('clients')},publishers://127.0.0.1:0"
    with Sidecar(listen=listen) as sidecar:
        clients, publishers = sidecar.ready["clients"], sidecar.ready["publishers"]
        assert (len(clients), len(publishers)) == (3, 2)
        contexts = [None, None, certificate.trusting()]
        with ExitStack() as stack:
            peers = [
                stack.enter_context(WireClient(address, tls=context))
                for address, context in zip(clients, contexts, strict=True)
            ]
            for peer in peers:
                peer.subscribe("/many/one")
            for number, address in enumerate(publishers):
                with WirePublisher(address) as publisher:
                    publisher.publish(["/many/one", str(number)])
            for peer in peers:
                assert peer.texts(2) == ["0", "1"]


# What cannot be opened


def refused(**settings: str) -> str:
    """The words with which the sidecar refuses to start."""
    ended = subprocess.run(
        [sys.executable, "-m", "fastpath"],
        cwd=ROOT,
        env={f"FASTPATH_{name.upper()}": value for name, value in ({"mode": "none"} | settings).items()},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = refused(listen=f"publishers://127.0.0.1:0,clients://127.0.0.1:{port}")
        assert words == f"fastpath: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_an_address_of_another_machine() -> None:
    words = refused(listen="clients://192.0.2.1:7000")
    assert words == "fastpath: cannot listen on 192.0.2.1:7000: Cannot assign requested address\n"


def test_a_name_that_is_none() -> None:
    assert "cannot listen on no-such-host.invalid:" in refused(listen="clients://no-such-host.invalid:0")


def test_a_certificate_that_is_not_there(certificate: Certificate, tmp_path: Path) -> None:
    words = refused(listen=f"clients+tls://127.0.0.1:0?cert={tmp_path}/no.pem&key={certificate.key}")
    assert words.startswith("fastpath: TLS for 127.0.0.1:0: [Errno 2] No such file or directory")
    assert f"(certificate {tmp_path}/no.pem, key {certificate.key})" in words


def test_a_key_of_another_certificate(certificate: Certificate, tmp_path: Path) -> None:
    other = Certificate(tmp_path, "other")
    words = refused(listen=f"clients+tls://127.0.0.1:0?cert={certificate.cert}&key={other.key}")
    assert "KEY_VALUES_MISMATCH" in words
    assert str(other.key) in words


def test_ciphers_that_do_not_exist(certificate: Certificate) -> None:
    words = refused(listen=certificate.url("clients", "&ciphers=NONSENSE"))
    assert "No cipher can be selected" in words


# No more files


def test_no_more_files() -> None:
    """Who finds no place waits in the kernel and is served when one has gone; nobody else notices."""
    with Sidecar() as sidecar, undisturbed(sidecar), ExitStack() as stack:
        most = open_files(sidecar.pid) + 10
        resource.prlimit(sidecar.pid, resource.RLIMIT_NOFILE, (most, most))
        inside = [stack.enter_context(WireClient(sidecar)) for _ in range(10)]
        with Socket(sidecar.client_url) as waiting:
            waiting.send(request())
            until(lambda: "cannot accept: Too many open files" in sidecar.log)
            assert waiting.silent()
            for client in inside:
                assert client.ask("ping", "pong")
            inside[0].sock.close()
            assert waiting.read(12) == b"HTTP/1.1 101"
        resource.prlimit(sidecar.pid, resource.RLIMIT_NOFILE, (most, most))


def test_with_few_files_there_is_still_a_place() -> None:
    """The hard limit of a small container leaves less than what is kept for other purposes."""
    shell = f"ulimit -n 64; exec {sys.executable} -m fastpath"
    process = subprocess.Popen(
        ["sh", "-c", shell],
        cwd=ROOT,
        env={"FASTPATH_MODE": "none", "FASTPATH_LISTEN": "clients://127.0.0.1:0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.split('"clients": ["')[1].split('"')[0]
        with WireClient(address) as client:
            assert client.ask("ping", "pong")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


def test_a_publisher_is_ended_by_its_own_fault_only(certificate: Certificate) -> None:
    """The end of TLS comes after the reason."""
    with Sidecar(listen=f"clients://127.0.0.1:0,{certificate.url('publishers')}") as sidecar:
        context = certificate.trusting()
        with WirePublisher(sidecar, tls=context) as one, WirePublisher(sidecar, tls=context) as two:
            one.packet("batch", 1, [["/tls/end", "x"]])
            one.packet("nonsense")
            assert one.next()[:2] == ["ack", 1]
            with pytest.raises(Ended, match="nonsense"):
                one.next()
            assert two.publish(["/tls/end", "y"]) == [2]
