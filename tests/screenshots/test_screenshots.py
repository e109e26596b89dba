"""The pictures of the manual: each is of the program, on a page, and what moves does."""

from __future__ import annotations

import re
import struct
import zlib

import pytest

from tests.screenshots.__main__ import FOLDER, PICTURES
from tests.screenshots.animation import SIGNATURE, NoAnimation, animated, chunks
from tests.support.realtime.server import ROOT

MOVING = {"prices-move.png", "a-right-goes.png"}
BYTES_MAX = 1_500_000


def png(width: int, height: int, grey: int) -> bytes:
    """A picture of one shade."""
    rows = b"".join(b"\0" + bytes([grey]) * width for _ in range(height))
    body = zlib.compress(rows)
    found = SIGNATURE
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    for name, content in ((b"IHDR", head), (b"IDAT", body[:7]), (b"IDAT", body[7:]), (b"IEND", b"")):
        found += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return found


def test_pictures_become_one_that_moves() -> None:
    """The parts are numbered through, and what is in them is what was in the pictures."""
    pictures = [png(3, 2, grey) for grey in (0, 128, 255)]
    made = list(chunks(animated([(picture, 100 * (at + 1)) for at, picture in enumerate(pictures)])))
    names = [name.decode() for name, _ in made]
    assert names == [
        "IHDR", "acTL", "fcTL", "IDAT", "IDAT", "fcTL", "fdAT", "fdAT", "fcTL", "fdAT", "fdAT", "IEND",
    ]  # fmt: skip
    assert made[1][1] == struct.pack(">II", 3, 0)
    numbered = [struct.unpack(">I", body[:4])[0] for name, body in made if name in (b"fcTL", b"fdAT")]
    assert numbered == list(range(len(numbered)))
    assert [struct.unpack(">H", body[20:22])[0] for name, body in made if name == b"fcTL"] == [100, 200, 300]
    for at, picture in enumerate(pictures):
        begin = [number for number, name in enumerate(names) if name == "fcTL"][at]
        data = b"".join(body if name == b"IDAT" else body[4:] for name, body in made[begin + 1 : begin + 3])
        assert zlib.decompress(data) == zlib.decompress(b"".join(b for name, b in chunks(picture) if name == b"IDAT"))


@pytest.mark.parametrize(
    ("pictures", "why"),
    [
        ([png(1, 1, 0)], "one picture does not move"),
        ([png(1, 1, 0), png(2, 1, 0)], "picture 1 is of another size"),
        ([b"GIF89a", png(1, 1, 0)], "it is no PNG"),
        ([png(1, 1, 0)[:-3] + b"xyz", png(1, 1, 0)], "its part IEND is damaged"),
    ],
)
def test_what_is_no_animation_is_told(pictures: list[bytes], why: str) -> None:
    with pytest.raises(NoAnimation, match=why):
        animated([(picture, 100) for picture in pictures])


def test_each_picture_is_on_a_page_and_none_is_left_over() -> None:
    """With a text for who does not see it."""
    assert {path.name for path in FOLDER.iterdir()} == set(PICTURES)
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")))
    shown = dict(re.findall(r"!\[([^]]{20,})\]\((?:docs/|[./]*)images/([\w-]+\.png)\)", pages))
    assert set(shown.values()) == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole_and_moves_if_it_shall(name: str) -> None:
    picture = (FOLDER / name).read_bytes()
    assert len(picture) <= BYTES_MAX
    frames = [body for part, body in chunks(picture) if part == b"fcTL"]
    assert bool(frames) == (name in MOVING)
