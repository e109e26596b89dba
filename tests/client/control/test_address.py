"""The control socket of a sidecar on another host: TLS with certificates on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastpath.client.control.address import parse_tls
from fastpath.client.control.client import Control
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import SidecarUnavailable
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient
from tests.support.hook import Answering
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def made(folder: Path) -> Certificate:
    """A certificate in a folder of its own."""
    folder.mkdir()
    return Certificate(folder)


def test_django_dials_a_sidecar_on_another_host(tmp_path: Path) -> None:
    """Every verb works; with a certificate that the sidecar does not know nothing does."""
    server, django, stranger = (made(tmp_path / name) for name in ("server", "django", "stranger"))
    listen = f"clients://127.0.0.1:0,control+tls://127.0.0.1:0?{server.options}&ca={django.cert}"
    with Sidecar(listen=listen) as sidecar:
        [address] = sidecar.ready["control_tls"]
        with Control(f"tls://{address}?ca={server.cert}&{django.options}") as control:
            assert control.hello()["pid"] == sidecar.pid
            assert control.publish([["/a/b", "1"]])["results"] == [1]
            assert control.snapshot("/a/b")["status"] == "found"
        for ca, own in ((server, stranger), (stranger, django)):
            with Control(f"tls://{address}?ca={ca.cert}&{own.options}") as control, pytest.raises(SidecarUnavailable):
                control.hello()


def test_a_sidecar_on_another_host_asks_its_hook(tmp_path: Path) -> None:
    """What is pushed comes whole, however large, while answers go the other way; the end is seen."""
    server, django = made(tmp_path / "server"), made(tmp_path / "django")
    listen = f"clients://127.0.0.1:0,control+tls://127.0.0.1:0?{server.options}&ca={django.cert}"
    with Sidecar(listen=listen, mode="custom") as sidecar:
        address = f"tls://{sidecar.ready['control_tls'][0]}?ca={server.cert}&{django.options}"
        with Answering(address) as hook, WireClient(sidecar) as client:
            subjects = [f"/tls/{number}/{'x' * 400}" for number in range(1000)]
            client.say("subscribe", subjects=subjects)
            assert {one["error"] for one in client.answer("subscribed")["results"]} == {"not_ready"}
            assert len(client.answer("subscribed")["results"]) == 1000
            assert hook.about("subscribe")[0]["subjects"] == subjects
        with Pushes(address) as pushes:
            assert pushes.read(0.01) == []
            sidecar.kill()
            with pytest.raises(SidecarUnavailable):
                until(lambda: pushes.read(0.1))
            with pytest.raises(SidecarUnavailable):
                until(lambda: pushes.send("hello", {}) and False)
        with pytest.raises(SidecarUnavailable):
            Pushes(address)


@pytest.mark.parametrize("address", ["tls://host", "tls://host:1", "tls://host:1?ca=a&cert=b", "tls://:1?ca=a"])
def test_an_address_names_all_it_needs(address: str) -> None:
    """The error shows the whole form."""
    with pytest.raises(ValueError, match="tls://HOST:PORT"):
        parse_tls(address)
