"""Parts of a subject's cached messages that fit into one answer: the newest, or those behind a position."""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.messages import Message
from .cache_range import chain, part
from .history import Cached, History


class PageRoom:
    """The room of an answer: ``messages`` of ``size`` together; the first message of all finds room always."""

    __slots__ = ("_empty", "messages", "size")

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size
        self._empty = True

    def take(self, message: Message) -> bool:
        """Return whether there is room for the message, which is taken then."""
        if self.messages <= 0 or (message.size > self.size and not self._empty):
            return False
        self.messages -= 1
        self.size -= message.size
        self._empty = False
        return True


class Page(NamedTuple):
    """Messages, the oldest first, and whether there are ``more`` of what was asked for than had room."""

    messages: list[Message]
    more: bool


def newest(topic: Cached, count: int, room: PageRoom) -> Page:
    """Return the newest ``count`` cached messages, or the newest of these that have room."""
    ring = chain(topic)
    wanted = part(ring, max(0, len(ring) - count), count)
    found: list[Message] = []
    for message in reversed(wanted):
        if not room.take(message):
            break
        found.append(message)
    return Page(found[::-1], len(found) < len(wanted))


def behind(history: History, topic: Cached, epoch: int, seq: int, count: int, room: PageRoom) -> Page | None:
    """Return the first messages behind the position, ``count`` at most; None: the cache does not reach back to
    there."""
    at = history.after(topic, epoch, seq)
    if at is None:
        return None
    ring = topic.ring or []
    found: list[Message] = []
    for message in part(ring, at, count):
        if not room.take(message):
            break
        found.append(message)
    return Page(found, at + len(found) < len(ring))
