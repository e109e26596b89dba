"""The Java process that serves MBeans, read by a Java client."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from realtime.addresses import Address, parse
from realtime.jmx.beans import quote
from realtime.jmx.bridge import Bridge, BridgeEnded
from tests.support.certificates import Certificate
from tests.support.ports import free_port
from tests.support.processes import running
from tests.support.realtime.jmx_reader import QUERY, read
from tests.support.realtime.server import ROOT
from tests.support.waiting import until

NODE = f"fastpath:type=Node,name={quote('/run/a*b?.sock')}"


def free_address(cert: Certificate | None = None) -> Address:
    """Of this machine alone."""
    files = {"cert": str(cert.cert), "key": str(cert.key)} if cert else {}
    return Address("127.0.0.1", free_port(), **files)


@pytest.mark.slow
def test_numbers_and_texts_are_read_and_nothing_else_can_be_done() -> None:
    address = free_address()
    with Bridge(address) as bridge:
        bridge.send(
            {NODE: {"connections": 5, "latency": float("inf"), "error": "a\tb"}, "fastpath:type=Gone": {"x": 1}}
        )
        bridge.send({NODE: {"connections": 7.5, "latency": None, "error": "a\tb"}})
        read_now = [f"{NODE}!{name}" for name in ("connections", "latency", "error", "nothing")]
        found = until(lambda: (r := read(address.port, "names=fastpath:*", *read_now))[1] == "7.5" and r)
        assert found == [f"[{NODE}]", "7.5", "null", "a b", "AttributeNotFoundException nothing"]
        refused = read(address.port, "create", f"set={NODE}", f"invoke={NODE}", "rebind", "nested", "printed", "wide")
        assert [line.split(" ")[0] for line in refused[:3]] == ["SecurityException"] * 3
        assert "REJECTED" in refused[3], "nor can another be put in its place"
        for line in refused[4:]:
            assert "REJECTED" in line, "what is hashed, printed or long keeps nobody busy"
        every = read(address.port, "listen", f"all={NODE}", f"info={NODE}", QUERY, f"{NODE}!connections")
        assert every == ["listening", "[connections, error, latency]", "3", f"[{NODE}]", "7.5"]
        with pytest.raises(BridgeEnded, match="in use"), Bridge(address):
            pass


@pytest.mark.slow
def test_the_password_of_any_user() -> None:
    address = free_address()
    with Bridge(address, "grün 7") as bridge:
        bridge.send({NODE: {"connections": 5}})
        logins = ["anybody/grün 7", "-", "anybody/grün", "grün 7/", "somebody/grün 7"]
        answers = read(address.port, f"{NODE}!connections", logins=logins)
        assert (answers[0], answers[4]) == ("5.0", "5.0")
        assert [answer.split(":")[0] for answer in answers[1:4]] == ["refused java.lang.SecurityException"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_connections_that_say_nothing_keep_nobody_out_and_are_closed(tmp_path: Path, secure: bool) -> None:
    """Also before the handshake, and before any password; a reader comes in while they are there."""
    certificate = Certificate(tmp_path) if secure else None
    trusted = certificate.cert if certificate else None
    address = free_address(certificate)
    with Bridge(address, "x", silent_seconds=5) as bridge, ExitStack() as stack:
        bridge.send({NODE: {"connections": 5}})
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", address.port))) for _ in range(80)]
        assert until(lambda: sum(map(is_closed, idle)) >= 80 - 24), "as many stay as may come from one address"
        assert not is_closed(idle[-1])
        assert read(address.port, f"{NODE}!connections", logins=["a/x"], trusted=trusted) == ["5.0"]
        until(lambda: all(map(is_closed, idle)), 10)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it."""
    try:
        return not connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.slow
def test_with_tls_and_no_word_in_plain(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    address = free_address(certificate)
    with Bridge(address, "x") as bridge:
        bridge.send({NODE: {"connections": 5}})
        assert read(address.port, f"{NODE}!connections", logins=["a/x"], trusted=certificate.cert) == ["5.0"]
        with pytest.raises(AssertionError, match=r"ConnectIOException|SSLException|non-JRMP"):
            read(address.port, f"{NODE}!connections", logins=["a/x"])


@pytest.mark.slow
def test_it_ends_with_its_parent_and_is_missed_when_it_dies() -> None:
    address = free_address()
    with Bridge(address) as bridge:
        pid = bridge.pid
        os.kill(pid, signal.SIGKILL)

        def told() -> bool:
            try:
                bridge.send({NODE: {"x": 1}})
            except BridgeEnded:
                return True
            return False

        until(told)
    program = (
        "import sys, time; from realtime.addresses import Address; from realtime.jmx.bridge import Bridge\n"
        f"with Bridge(Address('127.0.0.1', {free_port()})) as b: print(b.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        java = int(parent.stdout.readline())
        assert running([java])
        parent.kill()
    until(lambda: not running([java]))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"none\.pem"):
        Bridge(Address("127.0.0.1", 1, cert=str(tmp_path / "none.pem"), key=str(tmp_path / "none.key")))


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("jmx://127.0.0.1", "neither"),
        ("http://127.0.0.1:1", "neither"),
        ("jmx://127.0.0.1:x", "Port"),
        ("jmx://:9010", "neither"),
        ("jmx://u:secret@127.0.0.1:9010", "a setting of its own"),
        ("jmx+tls://127.0.0.1:9010", "go together"),
        ("jmx://127.0.0.1:9010?cert=a&key=b", "go together"),
        ("jmx://127.0.0.1:9010?cert=a", "go together"),
        ("jmx://127.0.0.1:9010?key=b", "go together"),
        ("jmx+tls://127.0.0.1:9010?cert=a", "go together"),
        ("jmx://127.0.0.1:9010?tls=1", "unknown option tls"),
    ],
)
def test_addresses_that_are_none(url: str, what: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=what) as caught:
        parse("JMX", url, "jmx", "jmx+tls", "name")
    assert "secret" not in str(caught.value)


def test_addresses() -> None:
    assert parse("JMX", "jmx://*:9010?name=a.example.com", "jmx", "jmx+tls", "name").mbeans == (
        "service:jmx:rmi:///jndi/rmi://a.example.com:9010/jmxrmi"
    )
    secure = parse("STATS_LISTEN", "https://[::1]:9443?cert=/c.pem&key=/k.pem", "http", "https")
    assert secure == Address("::1", 9443, "/c.pem", "/k.pem")
    assert secure.url("/metrics") == "https://[::1]:9443/metrics"
