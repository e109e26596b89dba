"""The control verb ``tree``: what stands right below a place, in order, page by page."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.matching.subject_tree import HERE, Tree
from fastpath.core.protocol.packets import Unpacker
from fastpath.edge.control.subject_branches import LISTINGS_MAX, SLICE_SEGMENTS
from tests.support.edge.wire import packed
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

COUNT = SLICE_SEGMENTS * 20 + 10
"""More than one slice of work."""


@pytest.fixture(scope="module")
def full() -> Iterator[Control]:
    """A sidecar with many subjects under /many/, and some others; one has others below it."""
    with Sidecar(mode="none") as sidecar, Control(sidecar.control) as control:
        control.publish([[f"/many/{number:05}", "x"] for number in range(COUNT)])
        control.publish([[subject, "1"] for subject in ("/a/us", "/a/us/IBM", "/a/us/GE", "/a/us/IBM", "/a/eu/x/y")])
        yield control


def tree(control: Control, **arguments: Any) -> list[list[object]]:
    """The rows of a page."""
    return list(control.tree(**arguments)["children"])


def test_each_place_with_what_is_below_it(full: Control) -> None:
    """Whether it is a subject, how much is right below it, and its number; what is not there has nothing below it."""
    assert [row for row in tree(full) if row[0] != "__sys__"] == [["a", False, 2, 0], ["many", False, COUNT, 0]]
    assert tree(full, prefix="/a") == [["eu", False, 1, 0], ["us", True, 2, 1]]
    assert tree(full, prefix="/a/us") == [["GE", True, 0, 1], ["IBM", True, 0, 2]]
    for nothing in ("/a/us/IBM", "/b", "/a/", "/a/us/IBM/more", "//"):
        assert tree(full, prefix=nothing) == []


def test_pages_follow_each_other(full: Control) -> None:
    """From a place on, or behind one; and only what begins so, which is counted."""
    page = full.tree("/many", limit=3)
    assert ([row[0] for row in page["children"]], page["total"], page["more"]) == (
        ["00000", "00001", "00002"],
        COUNT,
        True,
    )
    assert [row[0] for row in tree(full, prefix="/many", after="00002", limit=2)] == ["00003", "00004"]
    assert [row[0] for row in tree(full, prefix="/many", start="03", limit=1)] == ["03000"]
    last = full.tree("/many", begins="0400", after="04008")
    assert last == {"children": [["04009", True, 0, 1]], "total": 10, "more": False}


def test_what_makes_no_sense_is_refused(full: Control) -> None:
    """And the connection goes on."""
    for wrong in ({"limit": 0}, {"limit": 1001}, {"limit": True}, {"prefix": 7}, {"prefix": "many"}, {"after": ["x"]}):
        with pytest.raises(ControlRefused, match="invalid"):
            full.call("tree", wrong)
    assert len(tree(full, prefix="/many", limit=1000)) == 1000


def test_too_many_at_once_are_refused_and_who_leaves_ends_theirs(full: Control) -> None:
    """Each holds a list of all segments while it runs."""
    for _ in range(2):
        until(lambda: _free(full))
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(full.path)
            sock.sendall(b"".join(packed(number, "tree", {"prefix": "/many"}) for number in range(LISTINGS_MAX + 1)))
            unpacker, answers = Unpacker(1 << 24), []
            while len(answers) <= LISTINGS_MAX:
                answers += unpacker.feed(sock.recv(1 << 16))
            assert sorted(answer[1] for answer in answers) == ["error", *["ok"] * LISTINGS_MAX]
            assert next(answer for answer in answers if answer[1] == "error")[2]["code"] == "limit"
            # These are still under way when the connection ends.
            sock.sendall(b"".join(packed(number, "tree", {"prefix": "/many"}) for number in range(LISTINGS_MAX)))
    assert until(lambda: _free(full))


def _free(control: Control) -> bool:
    """Whether a listing is answered."""
    try:
        return len(tree(control, prefix="/many", limit=10)) == 10
    except ControlRefused:
        return False


def test_below_a_place_of_the_tree() -> None:
    """A value that has others below it stands at ``HERE``."""
    subjects = Tree()
    for subject in ("/a/b", "/a/b/c", "/a/d"):
        subjects.add(subject, subject)
    assert set(subjects.below("")) == {"a"}
    assert set(subjects.below("/a")) == {"b", "d"}
    assert subjects.below("/a/b") == {HERE: "/a/b", "c": "/a/b/c"}
    assert subjects.below("/a/d") == subjects.below("/x") == subjects.below("/a/d/e") == {}
    subjects.discard("/a/b/c")
    subjects.discard("/a/b")
    assert set(subjects.below("/a")) == {"d"}
