"""The failure for which there is no excuse: a message or a right is not as the product promises."""

from __future__ import annotations


class BrokenPromise(AssertionError):
    """A message was lost, doubled, out of order or sent without a right, or a row was committed twice.

    A slow machine brings none of these about, so that a test which fails with it gets no second look
    (tests/support/second_look.py).
    """


def kept(holds: object, told: object = "") -> None:
    """BrokenPromise unless it holds."""
    if not holds:
        raise BrokenPromise(told)
