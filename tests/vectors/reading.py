"""Reads the vectors for the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fastpath.core.protocol.codec import Form

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Vector:
    """One vector; ``forms`` are its bytes in each form that it has."""

    name: str
    section: str
    direction: str
    forms: dict[Form, bytes]

    def __str__(self) -> str:
        return f"{self.section} {self.name}"


def vectors(*directions: str) -> list[Vector]:
    """The vectors of some directions, in the order of the files."""
    result = []
    for path in sorted(FOLDER.glob("*.json")):
        for raw in json.loads(path.read_text()):
            if raw["direction"] in directions:
                forms: dict[Form, bytes] = {"msgpack": bytes.fromhex(raw["msgpack"])}
                if raw["json"] is not None:
                    forms["json"] = raw["json"].encode()
                result.append(Vector(raw["name"], raw["section"], raw["direction"], forms))
    return result


def each_form(*directions: str) -> list[tuple[Vector, Form]]:
    """Every vector in every form that it has."""
    return [(vector, form) for vector in vectors(*directions) for form in vector.forms]


def changed(data: bytes) -> list[bytes]:
    """The data with one byte changed, at each place in turn (its lowest bit)."""
    return [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(len(data))]
