"""Where a reader of events stands: positions of subjects as a short text, which it hands back as ``Last-Event-ID``."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

import msgspec

from ..protocol.errors import InvalidMessage

CURSOR_BYTES_MAX = 4096
"""A cursor comes back in the head of a request, which may have 8 KiB (core/websocket/handshake.py)."""

UNKNOWN = "-"
"""The cursor of a reader whose positions do not fit: it is told that it was resynchronised."""

Positions = Mapping[str, tuple[int, int]]
"""Epoch and sequence number of what was sent last, by subject."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[int, dict[int | str, int]]).decode


def encode_cursor(positions: Positions, asked: Sequence[str]) -> str:
    """Return the cursor; the subjects in ``asked``, which the request has in the same order, go by their places
    there."""
    places = {subject: place for place, subject in enumerate(asked)}
    by_epoch: dict[int, dict[int | str, int]] = {}
    for subject, (epoch, seq) in positions.items():
        by_epoch.setdefault(epoch, {})[places.get(subject, subject)] = seq
    text = urlsafe_b64encode(_encode(by_epoch)).rstrip(b"=").decode()
    return text if len(text) <= CURSOR_BYTES_MAX else UNKNOWN


def decode_cursor(text: str, asked: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the positions that a cursor of a request for these subjects stands for; raise InvalidMessage."""
    try:
        if len(text) > CURSOR_BYTES_MAX or not text.isascii():
            raise ValueError("too long")
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return {
            asked[name] if isinstance(name, int) else name: (epoch, seq)
            for epoch, numbers in _decode(raw).items()
            for name, seq in numbers.items()
            if epoch >= 0 and seq >= 0 and (not isinstance(name, int) or 0 <= name < len(asked))
        }
    except (ValueError, msgspec.DecodeError, msgspec.ValidationError):
        raise InvalidMessage("invalid", "Last-Event-ID is no cursor of this server") from None
