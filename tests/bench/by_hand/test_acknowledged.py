"""`acknowledged` against a running sidecar: all is delivered, acknowledged and counted."""

from __future__ import annotations

import re

import pytest

from fastpath.bench.__main__ import main
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar


@pytest.mark.parametrize("quality", ["0", "1"])
def test_the_cost_of_a_delivery(capsys: pytest.CaptureFixture[str], quality: str) -> None:
    with Sidecar(listen="mqtt://127.0.0.1:0", mode="none") as sidecar:
        address = sidecar.ready["mqtt"][0]
        arguments = ("--connections", "5", "--messages", "300", "--in-flight", "7", "--bytes", "100")
        assert main(["acknowledged", "--server", address, *arguments, "--quality", quality]) == 0
        assert "no --pid" in capsys.readouterr().out
        own = ("--pid", str(sidecar.pid), "--quality", quality)
        assert main(["acknowledged", "--server", address, *arguments, *own]) == 0
        found = re.match(rf"1,500 deliveries of quality {quality}, .*/s; (.*) µs of CPU", capsys.readouterr().out)
        assert found
        assert float(found[1]) > 0


@pytest.mark.parametrize("server", ["nowhere", "nowhere:port"])
def test_a_server_is_a_host_and_a_port(capsys: pytest.CaptureFixture[str], server: str) -> None:
    assert main(["acknowledged", "--server", server]) == 2
    assert "a server is HOST:PORT" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main(["acknowledged", "--server", address]) == 2
    assert address in capsys.readouterr().err
