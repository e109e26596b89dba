"""The control verb ``subjects``: what is in use, in order, by pattern and prefix, page by page."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.protocol.packets import Unpacker
from fastpath.edge.control.subjects import SEARCHES_MAX, SLICE_SUBJECTS
from tests.support.edge.wire import WireClient, packed
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

COUNT = SLICE_SUBJECTS * 60 + 10
"""More than one slice of work."""


@pytest.fixture(scope="module")
def full() -> Iterator[Sidecar]:
    """A sidecar with many subjects under /many/, and three others."""
    with Sidecar(mode="none") as sidecar, Control(sidecar.control) as control:
        names = [f"/many/{number:05}" for number in range(COUNT)]
        for start in range(0, COUNT, 5000):
            control.publish([[name, "x"] for name in names[start : start + 5000]])
        control.publish(
            [["/stocks/us/IBM", "1"], ["/stocks/us/GE", "1"], ["/stocks/eu/IBM", "1", None, {"retained": False}]]
        )
        yield sidecar


def test_by_pattern_and_prefix(full: Sidecar) -> None:
    """Each with its number, and whether it has a snapshot and subscribers."""
    with Control(full.control) as control, WireClient(full) as client:
        client.subscribe("/stocks/us/GE")
        client.subscribe("/stocks/asia/7203", conflation=500)
        assert control.subjects(pattern="/stocks/*/IBM") == {
            "subjects": [["/stocks/eu/IBM", 1, False, False], ["/stocks/us/IBM", 1, True, False]],
            "total": 2,
            "snapshots": 1,
            "more": False,
        }
        assert control.subjects(prefix="/stocks/") == {
            "subjects": [
                ["/stocks/asia/7203", 0, False, True],
                ["/stocks/eu/IBM", 1, False, False],
                ["/stocks/us/GE", 1, True, True],
                ["/stocks/us/IBM", 1, True, False],
            ],
            "total": 4,
            "snapshots": 2,
            "more": False,
        }
        control.publish([["/gone/a", "1"], ["/gone/a", "", None, {"removed": True}], ["/gone/b", "1"]])
        found = control.subjects(prefix="/gone/")
        assert found["subjects"] == [["/gone/a", 2, False, False], ["/gone/b", 1, True, False]]
        assert found["snapshots"] == 1
        assert control.subjects(pattern="/**", prefix="/stocks/us/I")["total"] == 1
        assert control.subjects(pattern="/none/*")["total"] == 0


def test_pages(full: Sidecar) -> None:
    """Every subject once, in order, over slices and pages."""
    seen: list[str] = []
    with Control(full.control) as control:
        while True:
            page = control.subjects(pattern="/many/*", after=seen[-1] if seen else "", limit=1000)
            assert page["total"] == COUNT
            seen += [row[0] for row in page["subjects"]]
            assert page["more"] == (len(seen) < COUNT)
            if not page["more"]:
                break
    assert seen == [f"/many/{number:05}" for number in range(COUNT)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"limit": 0}, "limit is a number from 1 to 1000"),
        ({"limit": 1001}, "limit is a number from 1 to 1000"),
        ({"limit": "9"}, "limit is a number from 1 to 1000"),
        ({"pattern": "/a*/b"}, "must be a whole segment"),
        ({"prefix": 7}, "prefix is a text"),
    ],
)
def test_refusals(full: Sidecar, arguments: dict, text: str) -> None:
    """What is wrong is named."""
    with Control(full.control) as control, pytest.raises(ControlRefused, match=text):
        control.call("subjects", arguments)


def test_too_many_at_once_and_who_goes_away(full: Sidecar) -> None:
    """More than a few searches are refused; those of a peer that has left leave room again."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(full.control)
        peer.sendall(b"".join(packed(number, "subjects", {"limit": 1}) for number in range(1, SEARCHES_MAX + 2)))
        unpacker = Unpacker(1 << 20)
        refused = next(iter(unpacker.feed(peer.recv(1 << 16))))  # at once, before those that were begun
        assert refused[:2] == [SEARCHES_MAX + 1, "error"]
        assert "searches are under way" in refused[2]["reason"]
    with Control(full.control) as control:
        until(lambda: _allowed(control))


def _allowed(control: Control) -> bool:
    try:
        return bool(control.subjects(pattern="/many/*", limit=1)["total"] == COUNT)
    except ControlRefused:
        return False
