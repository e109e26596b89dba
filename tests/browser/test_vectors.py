"""The JavaScript client decodes and encodes every test vector, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.vectors.reading import Vector, changed, vectors

pytestmark = pytest.mark.browser

VECTORS = vectors("client", "server")

ROUND_TRIP = """async (vectors) => {
    const { decode, encode } = await import("/realtime/static/realtime/client/wire/codec.js");
    const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
    const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return vectors.map(({ json, msgpack }) => {
        const text = decode(json, "json"), binary = decode(bytes(msgpack), "msgpack");
        return { json: encode(binary, "json"), msgpack: hex(encode(text, "msgpack")),
                 same: JSON.stringify(text) === JSON.stringify(binary) };
    });
}"""

UNNOTICED = """async ({ original, changed }) => {
    const { decode } = await import("/realtime/static/realtime/client/wire/codec.js");
    const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
    const wanted = JSON.stringify(decode(bytes(original), "msgpack"));
    return changed.filter((hex) => {
        try {
            return JSON.stringify(decode(bytes(hex), "msgpack")) === wanted;
        } catch (error) {
            if (error.name !== "BadFrame") throw error;
            return false;
        }
    });
}"""


def _raw(vector: Vector) -> dict[str, str]:
    return {"json": vector.forms["json"].decode(), "msgpack": vector.forms["msgpack"].hex()}


def test_every_vector_in_both_directions(page: Page) -> None:
    """Text decoded and encoded as bytes gives the bytes, and the other way round."""
    results: list[dict[str, Any]] = page.evaluate(ROUND_TRIP, [_raw(vector) for vector in VECTORS])
    for vector, result in zip(VECTORS, results, strict=True):
        assert result == {**_raw(vector), "same": True}, str(vector)


def test_no_changed_byte_goes_unnoticed(page: Page) -> None:
    """Whichever byte of a vector is changed, it is refused or means something else."""
    for vector in VECTORS:
        data = vector.forms["msgpack"]
        argument = {"original": data.hex(), "changed": [other.hex() for other in changed(data)]}
        assert page.evaluate(UNNOTICED, argument) == [], str(vector)


NO_FRAMES = [
    ("[1,2]", "json"),
    ('[1,2,3,"x",{"f":7}]', "json"),
    ('[1,2,3,{"b":"AA"}]', "json"),
    ('[1,2,3,{"b":"AA=="}, null, 5]', "json"),
    ('[1.5,2,3,"x"]', "json"),
    ('{"id":1}', "json"),
    ('{"op":"connected","id":1}', "json"),
    ('{"op":"pong","id":"1","time":2}', "json"),
    ("{", "json"),
    ("c1", "msgpack"),
    ("94010203", "msgpack"),
    ("94010203a1ff", "msgpack"),
    ("940102cfffffffffffffffffa178", "msgpack"),
    ("91" * 4000, "msgpack"),
]


def test_what_is_no_frame_is_refused(page: Page) -> None:
    """With the one error that the client expects."""
    names = page.evaluate(
        """async (frames) => {
            const { decode } = await import("/realtime/static/realtime/client/wire/codec.js");
            return frames.map(([frame, form]) => {
                const data = form === "json" ? frame
                    : Uint8Array.from(frame.match(/../g), (pair) => parseInt(pair, 16));
                try { return decode(data, form); } catch (error) { return error.name; }
            });
        }""",
        NO_FRAMES,
    )
    assert dict(zip(NO_FRAMES, names, strict=True)) == dict.fromkeys(NO_FRAMES, "BadFrame")
