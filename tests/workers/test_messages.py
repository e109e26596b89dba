"""What workers send each other comes out as it went in, every message of it."""

from __future__ import annotations

from types import ModuleType
from typing import Any, get_type_hints

import pytest

from fastpath.core.protocol.options import OptionRow
from fastpath.edge.node import messages, node_messages
from fastpath.edge.node.messages import Figures, Packet, decode, encode

VALUES: dict[Any, Any] = {
    int: 7,
    float: 0.25,
    bool: True,
    str: "/a/b",
    bytes: b"x",
    str | None: None,
    Any: [1, "x"],
    dict[str, Any]: {"whole": 3, "part": 0.5, "text": "x"},
    list[int]: [1, 2],
    list[str]: ["/a/*"],
    list[Any]: [[1, "x"], None],
    list[list[Any]]: [["/a", "ann", 2]],
    list[OptionRow]: [OptionRow(1, "/a/**", cache_messages=3, conflation_ms=200)],
    tuple[str, str] | None: ("invalid", "no"),
    list[tuple[int, int]]: [(1, 7)],
    tuple[str, int, int]: ("/stocks/us/IBM", 3, 41),
    list[tuple[str, int, int]]: [("/stocks/us/IBM", 3, 41)],
    list[tuple[int, str, tuple[str, int, int]]]: [(1, "group", ("/stocks/us/IBM", 3, 41))],
    list[tuple[int, tuple[str, int, int]]]: [(1, ("/stocks/us/IBM", 3, 41))],
    list[tuple[int, bytes]]: [(1, b"x")],
    list[tuple[bytes, int]]: [(b"x", 1)],
    list[tuple[str, tuple[str, int, int]]]: [("node", ("/stocks/us/IBM", 3, 41))],
    list[tuple[str, str, int, int]]: [("g", "s.p!1", 100, 60_000)],
    list[tuple[str, int]]: [("ann", 2)],
    list[tuple[int, str, str]]: [(1, "ann", "10.0.0.1")],
    list[tuple[int, str, dict[str, Any]]]: [(1, "subject", {"user": "ann"})],
}


def kinds(of: ModuleType) -> list[type[Packet]]:
    """Return the messages that a module has."""
    return [kind for kind in Packet.__subclasses__() if kind.__module__ == of.__name__]


def filled(kind: type[Packet]) -> Packet:
    """Return a message with a value of each of its types."""
    return kind(*(VALUES[hint] for hint in get_type_hints(kind).values()))


@pytest.mark.parametrize("kind", kinds(node_messages), ids=lambda kind: kind.__name__)
def test_every_message_between_nodes_is_decoded_as_it_was_encoded(kind: type[Packet]) -> None:
    packet = filled(kind)
    assert node_messages.decode_from_node(node_messages.encode_for_node(packet)) == packet


@pytest.mark.parametrize("kind", kinds(messages), ids=lambda kind: kind.__name__)
def test_every_message_is_decoded_as_it_was_encoded(kind: type[Packet]) -> None:
    packet = filled(kind)
    data = encode(packet)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode(memoryview(data)[4:]) == packet


def test_a_count_stays_a_whole_number() -> None:
    """Or operators would read of 3.0 connections."""
    told = decode(memoryview(encode(Figures({"connections": 3, "cpu_seconds": 0.5})))[4:])
    assert isinstance(told, Figures)
    assert {name: type(value) for name, value in told.figures.items()} == {"connections": int, "cpu_seconds": float}
