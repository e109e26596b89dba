"""What is published and how it is counted: when it was sent, its subject and number in front, a marker at the end."""

from __future__ import annotations

MARKER = b"~" * 24
"""Bytes that stand once in each payload. `bytes.count` looks for so long a needle without looking at every byte, so
that deliveries are counted at memory speed whatever frames are around them."""

_TILDE = b"~"
_HEAD = b"@#"
_END = MARKER + b"."
"""The last byte is no tilde: a read that ends with one has cut a marker."""

BYTES_MIN = 100
"""Room for the numbers and the marker."""


class PayloadError(ValueError):
    """A size that the numbers and the marker do not fit into."""


class Payloads:
    """Payloads of one size, numbered by subject from 1; ``run`` tells them from another publisher's of the subjects."""

    def __init__(self, size: int, subjects: int, run: str = "") -> None:
        check_size(size)
        self._width = size - len(_END)
        self.numbers = [0] * subjects
        self._names = [f"{subject}.{run}".encode() if run else b"%d" % subject for subject in range(subjects)]

    def make(self, subject: int, sent_ns: int) -> bytes:
        """Return the next payload of a subject; ``sent_ns`` is of the monotonic clock."""
        self.numbers[subject] += 1
        return (b"@#%d %s %d " % (sent_ns, self._names[subject], self.numbers[subject])).ljust(self._width, b"x") + _END


def check_size(size: int) -> None:
    """Check a size; raise PayloadError for one that has no room for what is measured."""
    if size < BYTES_MIN:
        raise PayloadError(f"a payload of {size} bytes: the send time and the marker take {BYTES_MIN}")


def read(payload: bytes) -> tuple[int, bytes, int]:
    """Return when a payload was sent (ns), its subject in digits, and its number; raise ValueError if it is no such
    payload."""
    at = payload.find(_HEAD)
    if at < 0:
        raise ValueError("no payload of the benchmark")
    sent, subject, number, _ = payload[at + 2 :].split(b" ", 3)
    return int(sent), subject, int(number)


def cut(data: bytes) -> int:
    """Return how many bytes of a marker ``data`` ends with; 0 when it ends with a whole one or none."""
    tail = len(data) - len(data.rstrip(_TILDE))
    return 0 if tail >= len(MARKER) else tail


def count_after(carried: int, data: bytes) -> tuple[int, int]:
    """Count the payloads that ended in ``data``, when ``carried`` bytes of a marker came before it; and how many it
    carries on."""
    rest = data.lstrip(_TILDE)
    led = carried + len(data) - len(rest)
    if not rest:
        return (1, 0) if led >= len(MARKER) else (0, led)
    return (1 if led >= len(MARKER) else 0) + rest.count(MARKER), cut(rest)
