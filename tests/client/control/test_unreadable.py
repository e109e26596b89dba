"""A control socket of another user: the client says that it is one, not that the sidecar is to be started."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import SidecarUnavailable

NOBODY = 65534


@pytest.fixture
def socket_of_another(tmp_path: Path) -> Iterator[str]:
    """Somebody listens there, and this process may not open it."""
    path = tmp_path / "fastpath.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0)
        is_root = os.geteuid() == 0
        if is_root:  # whom no mode keeps out
            os.seteuid(NOBODY)
        try:
            yield str(path)
        finally:
            if is_root:
                os.seteuid(0)


def test_whose_it_is_is_what_is_said(socket_of_another: str) -> None:
    """Whoever can open it is trusted, so nobody else can."""
    with pytest.raises(SidecarUnavailable) as caught, Control(socket_of_another) as control:
        control.hello()
    assert "run this as the user who runs the sidecar" in str(caught.value)
    assert "runrealtime" not in str(caught.value)


def test_one_that_is_not_there_is_to_be_started(tmp_path: Path) -> None:
    """As before."""
    with pytest.raises(SidecarUnavailable, match=r"start it with `python manage\.py runrealtime`"):
        Control(str(tmp_path / "none.sock")).hello()
