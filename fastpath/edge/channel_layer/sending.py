"""Sends a group's message to its channels, a step at a time, so that a large group holds up nobody else."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from ...core.channel_layer.channels import Channels
from ..runtime.runtime import now

STEP_CHANNELS = 50
"""Channels of a group that are sent to without a look at the clock."""


class SentEach(NamedTuple):
    """The number of channels that have got a message, and of those that were full."""

    sent: int
    full: int


def send_each(
    channels: Channels, members: Sequence[tuple[str, int]], message: bytes, until: int
) -> Generator[None, None, SentEach]:
    """Send to each member, which is a channel and its capacity. Its sender's next message comes after all of it."""
    moment, sent = now(), 0
    for index, (channel, capacity) in enumerate(members, 1):
        sent += channels.send(channel, message, capacity, until, moment)
        if not index % STEP_CHANNELS and index < len(members):
            yield
    return SentEach(sent, len(members) - sent)


def all_at_once(steps: Generator[None, None, SentEach]) -> SentEach:
    """Return what the steps return, of which none is waited for."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        sent: SentEach = end.value
        return sent
