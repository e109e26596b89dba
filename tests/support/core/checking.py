"""A client that checks every frame it is sent: each message is the next one, or it was told what it lacks."""

from __future__ import annotations

from typing import Any

from fastpath.core.protocol.codec import JSON, decode_server
from fastpath.core.protocol.messages import Base, Data, Epoch, Result, Revoked, Subscribe, Subscribed, Unsubscribed
from fastpath.core.protocol.subject import is_wildcard
from fastpath.core.wires.registry import PLAIN
from tests.support.core.stage import Actor, Stage

SOCKET_BYTES = 4_000
"""What its socket holds before it blocks."""


class Book:
    """What a client has of a subject since it was told last that it begins: contents by number, above ``start``.

    While an answer to ``asked`` is on its way nothing counts that comes before it. ``short``: fewer messages are to
    come than it lacks, which only is so where a right has ended and the end is still to be read.
    """

    def __init__(self) -> None:
        self.start = 0
        self.position = (0, 0)
        self.has: dict[int, str] = {}
        self.stored = 0
        self.live = False
        self.asked = 0
        self.history = 0
        self.short = False

    def begin(self, epoch: int, seq: int) -> None:
        """From here on; what came before was not asked for."""
        self.start, self.position = seq, (epoch, seq)
        self.has = {}

    def back(self, epoch: int, seq: int) -> None:
        """What it has read above the number is void."""
        self.has = {number: text for number, text in self.has.items() if number <= seq}
        self.start, self.position = min(self.start, seq), (epoch, seq)

    def expected(self, chain: list[str]) -> dict[int, str]:
        """What it must have of a chain, whose first message is number 1."""
        return {number: text for number, text in enumerate(chain, 1) if number > self.start}


class Reader(Actor):
    """A client whose socket holds some bytes, that reads when it is told to, and checks what it reads."""

    def __init__(self, stage: Stage, name: str, books: dict[str, Book]) -> None:
        self.socket = self.rest = b""
        self.sids: dict[int, str] = {}
        self.books = books
        self.wanted: dict[str, None] = {}
        self.gaps: dict[str, None] = {}
        self.resynchronised = 0
        self.number = self.base = 0
        super().__init__(stage, name, "", PLAIN[JSON])

    def send(self, data: bytes | memoryview) -> int:
        """The socket takes what it holds."""
        took = min(SOCKET_BYTES - len(self.socket), len(data))
        self.socket += data[:took]
        return took

    def ask(self, subjects: list[str], since: dict[str, tuple[int, int]], history: int = 0) -> None:
        """Subscribe."""
        self.number += 1
        for subject in [one for one in subjects if not is_wildcard(one)]:
            book = self.books.setdefault(subject, Book())
            book.asked, book.live, book.history = self.number, False, history
        self.wanted |= dict.fromkeys(subjects)
        self.say(Subscribe(id=self.number, subjects=subjects, since=since, history=history))

    def read(self, count: int) -> None:
        """The program reads; the socket takes more from the queue, and says so when that is empty."""
        self.rest += self.socket[:count]
        self.socket = self.socket[count:]
        self.writable()
        while (size := whole(self.rest)) > 0:
            frame, self.rest = self.rest[:size], self.rest[size:]
            self.understand(frame[4 if frame[1] == 126 else 10 if frame[1] == 127 else 2 :])

    def understand(self, data: bytes) -> None:
        """One frame of the server's."""
        value: Any = decode_server(data, JSON)
        match value:
            case Base():
                self.base = value.base
            case Subscribed():
                for result in value.results:
                    self.answered(value.id if type(value.id) is int else 0, result)
            case Data():
                self.message(self.sids[value.sid], value)
            case Epoch():
                self.moved(self.sids[value.sid], value)
            case Revoked() | Unsubscribed():
                for subject in set(value.subjects) & set(self.books):
                    book = self.books[subject]
                    book.live = book.short = False

    def answered(self, number: int, result: Result) -> None:
        """A subscription has begun, or begun anew, or waits."""
        subject = result.subject
        if is_wildcard(subject):
            return
        if type(result.sid) is int:
            self.sids[result.sid] = subject
        book = self.books.setdefault(subject, Book())
        if book.asked and number != book.asked:
            return
        book.asked = 0
        if result.error:
            book.live = False
            return
        epoch, seq = int(result.epoch), int(result.seq)
        if not result.recovery:
            book.begin(epoch, seq - result.messages if book.history else seq)
        elif result.recovery == "recovered":
            lacks = seq - book.position[1] - result.messages
            assert lacks >= 0, "no more than what was missed follows"
            book.short = lacks > 0
            book.position = epoch, book.position[1]
        else:
            self.resynchronised += 1
            book.begin(epoch, seq)  # what was read may be void as well
        book.live, book.stored = True, result.messages

    def message(self, subject: str, data: Data) -> None:
        """A message: the next one, or the snapshot."""
        book = self.books[subject]
        if book.asked:
            return
        assert book.live, f"{subject} had ended"
        assert not book.short, "exactly what was missed follows, unless the right has ended"
        _, published, _ = str(data.content).split(":")
        assert self.base + data.t == int(published), "its time counts from the base that was told last"
        kind, (epoch, last) = data.meta.kind, book.position
        if kind:
            assert book.stored > 0, "no more stored messages than were announced"
            book.stored -= 1
        if kind == "snapshot":
            if last < data.seq:
                book.begin(epoch, data.seq)  # nothing is cached of the history that was asked for
            return
        if kind == "historical" and data.seq == last:
            return  # after a resynchronisation, where there is no snapshot
        assert data.seq == last + 1, f"{subject}: {last} was followed by {data.seq}"
        assert kind or not book.stored, "what was stored comes first"
        book.position = epoch, data.seq
        book.has[data.seq] = str(data.content)

    def moved(self, subject: str, event: Epoch) -> None:
        """Another epoch: what was read above is void; who has read less asks again."""
        book = self.books[subject]
        if not book.live:
            return
        last = book.position[1]
        book.stored = 0
        if last > event.seq:
            self.resynchronised += 1
            book.back(event.epoch, event.seq)
        else:
            book.position = event.epoch, last
            if last < event.seq:
                self.gaps[subject] = None
                book.live, book.asked = False, -1


def whole(data: bytes) -> int:
    """The size of the first frame; 0 if it is not all there."""
    if len(data) < 2:
        return 0
    head = {126: 4, 127: 10}.get(data[1], 2)
    if len(data) < head:
        return 0
    size = head + (data[1] if head == 2 else int.from_bytes(data[2:head], "big"))
    return size if len(data) >= size else 0
