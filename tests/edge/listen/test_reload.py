"""Certificates, keys and lists of addresses are read anew on all workers, and nobody's connection is dropped."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from tests.support.certificates import Certificate
from tests.support.edge.wire import Socket, WireClient, WirePublisher, request
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

LOOKS = 12
"""So many connections come to both of two workers, but for one case in two thousand."""


class Node:
    """Two workers with a certificate and a configuration file that a test may replace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.one, self.two = (self._certificate(name) for name in ("one", "two"))
        self.used = Certificate(folder)
        self.config = folder / "fastpath.toml"
        self.use(self.one)
        self.configure("")
        self.sidecar = Sidecar(
            config=self.config, workers=2, listen=f"{self.used.url('clients')},{self.used.url('publishers')}"
        )

    def _certificate(self, name: str) -> Certificate:
        folder = self.folder / name
        folder.mkdir()
        return Certificate(folder)

    def use(self, certificate: Certificate) -> None:
        """These files are what the sidecar's names lead to now."""
        shutil.copy(certificate.cert, self.used.cert)
        shutil.copy(certificate.key, self.used.key)

    def configure(self, text: str) -> None:
        """The configuration file says this now."""
        self.config.write_text(f'trusted_proxies = "127.0.0.1"\n{text}')

    def trusted(self, certificate: Certificate) -> bool:
        """Whether all workers show this certificate to newcomers."""
        return all(self._shows(certificate) for _ in range(LOOKS))

    def _shows(self, certificate: Certificate) -> bool:
        try:
            with Socket(self.sidecar.client_url, tls=certificate.trusting()):
                return True
        except ssl.SSLCertVerificationError:
            return False

    def hangup(self) -> None:
        """What an operator, or a tool that renews certificates, does."""
        os.kill(self.sidecar.pid, signal.SIGHUP)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One for all tests of this module; each leaves it with the first certificate and an empty configuration."""
    node = Node(tmp_path_factory.mktemp("reload"))
    with node.sidecar:
        yield node


def test_a_new_certificate_is_shown_to_newcomers_and_drops_nobody(node: Node) -> None:
    context = node.one.trusting()
    with (
        WireClient(node.sidecar, tls=context) as client,
        WirePublisher(node.sidecar, tls=context) as publisher,
    ):
        client.subscribe("/reload/one")
        assert node.trusted(node.one)
        node.use(node.two)
        node.hangup()
        until(lambda: node.trusted(node.two))
        with WirePublisher(node.sidecar, tls=node.two.trusting()) as newcomer:
            newcomer.publish(["/reload/one", "new"])
        publisher.publish(["/reload/one", "old"])
        assert client.texts(2) == ["new", "old"]
    node.use(node.one)
    with Control(node.sidecar.control) as control:
        assert control.reload() == {"errors": []}
    until(lambda: node.trusted(node.one))


def test_files_that_do_no_good_leave_everything_as_it_was(node: Node) -> None:
    with Control(node.sidecar.control) as control:
        shutil.copy(node.two.cert, node.used.cert)  # with the other one's key
        errors = control.reload()["errors"]
        assert len(errors) == 2
        assert "KEY_VALUES_MISMATCH" in errors[0]
        assert str(node.used.key) in errors[0]
        assert node.trusted(node.one)
        node.use(node.one)
        node.configure('origins = "ws://app.test"\n')
        [error] = control.reload()["errors"]
        assert error.startswith("FASTPATH_ORIGINS: 'ws://app.test' is no origin: write https://app.example.com, ")
        node.configure("")
        assert control.reload() == {"errors": []}
    until(lambda: node.sidecar.log.count("not reloaded: FASTPATH_ORIGINS") == 2)  # each worker says so


def test_lists_of_addresses_and_pages_change_while_it_runs(node: Node) -> None:
    page = request(headers="Origin: https://strange.test\r\n")

    def all_refused() -> bool:
        for _ in range(LOOKS):
            with Socket(node.sidecar.client_url, tls=node.one.trusting()) as socket:
                socket.send(page)
                if not socket.read(12).endswith(b"403"):
                    return False
        return True

    context = node.one.trusting()
    with WireClient(node.sidecar, tls=context) as client, WirePublisher(node.sidecar, tls=context) as publisher:
        publisher.publish(["/reload/two", "x"])
        node.configure('origins = "https://app.test"\npublish_from = "10.0.0.0/8"\nping_seconds = 99\n')
        node.hangup()
        until(all_refused)
        number = client.say("publish", subject="/reload/two", content="x", closure="c")
        assert client.answer("published", number)["status"] == "denied"
        publisher.packet("batch", 9, [["/reload/two", "x"]])
        assert publisher.closed() == (4503, "denied: publishing is not allowed from 127.0.0.1")
        until(lambda: "the setting ping_seconds changed: it takes force at the next start" in node.sidecar.log)
        # A worker that is restarted is forked from a parent that read the file long ago.
        os.kill(node.sidecar.ready["workers"][0], signal.SIGKILL)
        until(lambda: "worker 0 started" in node.sidecar.log.partition("ended by SIGKILL")[2])
        with Control(node.sidecar.control) as control:
            until(lambda: _workers(control) == 2)
        assert all_refused()
    node.configure("")
    node.hangup()
    until(lambda: not all_refused())


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_told(node: Node) -> None:
    other = node.sidecar.ready["workers"][1]
    with Control(node.sidecar.control) as control:
        os.kill(other, signal.SIGSTOP)
        try:
            assert control.reload()["errors"] == ["1 of the workers did not answer within 3 s"]
        finally:
            os.kill(other, signal.SIGCONT)
        assert control.reload() == {"errors": []}


def _workers(control: Control) -> int:
    try:
        return int(control.stats()["workers"])
    except Exception:
        return 0
