"""Sampled connections, read in full: each delivery's latency; per subject what is missing, doubled or out of order."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fastpath.core.websocket.frames import BINARY, CLOSE

from . import payload
from .latency import FINE_US, LatencyHistogram

Subject = str | bytes
"""A subject by its index as it stands in the payload."""


class Tally:
    """The findings of all sampled connections of a process, added up.

    ``gaps`` are messages missing by their number; ``announced`` those of them that the server told of (protocol.md 4.2
    ``resynchronised``, 4.13 ``lagging``). ``out_of_sequence`` are messages whose sequence number did not rise by one
    though nothing had been announced, ``malformed`` what ended like a payload and was none. Latencies are counted while
    ``measuring``.
    """

    def __init__(self) -> None:
        self.latency = LatencyHistogram()
        self.measuring = False
        self.deliveries = 0
        self.gaps = 0
        self.announced = 0
        self.doubled = 0
        self.reordered = 0
        self.out_of_sequence = 0
        self.malformed = 0
        self.recoveries: dict[str, int] = {}
        self.notices: dict[str, int] = {}

    COUNTS = ("deliveries", "gaps", "announced", "doubled", "reordered", "out_of_sequence", "malformed")

    def as_json(self) -> dict[str, Any]:
        """Return what ``merge`` takes, for another process."""
        counts = {name: getattr(self, name) for name in self.COUNTS}
        return counts | {"latency": self.latency.as_json(), "recoveries": self.recoveries, "notices": self.notices}

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add what another process found."""
        for name in self.COUNTS:
            setattr(self, name, getattr(self, name) + other[name])
        self.latency.merge(other["latency"]["items"], other["latency"]["max_us"])
        for mine, theirs in ((self.recoveries, other["recoveries"]), (self.notices, other["notices"])):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count

    def note(self, names: dict[str, int], name: str) -> None:
        """Count one event of this name."""
        names[name] = names.get(name, 0) + 1


class Track(ABC):
    """The messages that one connection has received, by the numbers that the publisher gave."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.latency = tally.latency
        self.close_code = 0
        """Code of the server's close frame, once it has come."""
        self.counted = True
        """True if the connection's deliveries count among the swarm's, and its latencies: not while it is slow on
        purpose."""
        self._last: dict[Subject, int] = {}
        self._missing: dict[Subject, set[int]] = {}

    @abstractmethod
    def feed(self, data: bytes, moment_ns: int) -> int:
        """Read bytes that came at ``moment_ns`` of the monotonic clock; return how many deliveries ended in them."""

    def newest(self, subject: int) -> int:
        """Return the number of the newest message of a subject; 0 for none."""
        return self._last.get(str(subject), 0) or self._last.get(b"%d" % subject, 0)

    def _delivered(self, sent_ns: int, subject: Subject, number: int, moment_ns: int, *, jumps: bool = False) -> None:
        """Note one payload; ``jumps`` says that numbers may be missing before it, as the server announced."""
        last = self._last.get(subject)
        if last is None or number == last + 1:
            self._last[subject] = number
        else:
            self._irregular(subject, last, number, jumps)
        if self.tally.measuring and self.counted:
            self.latency.add((moment_ns - sent_ns) // 1000)

    def _irregular(self, subject: Subject, last: int, number: int, jumps: bool) -> None:
        tally = self.tally
        if number > last:
            gap = number - last - 1
            if jumps:
                tally.announced += gap
            else:
                tally.gaps += gap
                self._missing.setdefault(subject, set()).update(range(last + 1, number)[:10_000])
            self._last[subject] = number
        elif number in self._missing.get(subject, ()):
            self._missing[subject].discard(number)
            tally.gaps -= 1
            tally.reordered += 1
        else:
            tally.doubled += 1


class MarkerTrack(Track):
    """Any server's: payloads are found by their ends, whatever is around them."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self._rest = b""

    def feed(self, data: bytes, moment_ns: int) -> int:
        parts = (self._rest + data).split(payload.MARKER)
        self._rest = parts.pop()
        for part in parts:
            try:
                self._delivered(*payload.read(part), moment_ns)
            except ValueError:
                self.tally.malformed += 1
        self.tally.deliveries += len(parts)
        return len(parts) if self.counted else 0


_DECODERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "json": (msgspec.json.Decoder(list[Any]).decode, msgspec.json.Decoder(dict[str, Any]).decode),
    "msgpack": (msgspec.msgpack.Decoder(list[Any]).decode, msgspec.msgpack.Decoder(dict[str, Any]).decode),
}


class FrameTrack(Track):
    """The track of a connection of this server: every frame is decoded, and the sequence numbers must rise by one as
    well (protocol.md 5.3).

    ``positions`` are what a client that comes back says in ``since``.
    """

    def __init__(self, tally: Tally, form: str, *, conflated: bool = False) -> None:
        super().__init__(tally)
        self._buffer = b""
        self._decode, self._decode_event = _DECODERS[form]
        self._names: dict[int, str] = {}
        self._epochs: dict[int, int] = {}
        self._seqs: dict[int, int] = {}
        self._jumping: set[int] = set()
        self._lagging: set[int] = set()
        self._conflated = conflated
        self._base = 0

    @property
    def positions(self) -> dict[str, tuple[int, int]]:
        """The epoch and the sequence number that were read last, by subject."""
        return {self._names[sid]: (self._epochs[sid], seq) for sid, seq in self._seqs.items() if seq}

    def reopened(self) -> None:
        """Begin with a new connection: what was half read is gone, what was read counts on."""
        self._buffer = b""
        self.close_code = 0
        for known in (self._names, self._epochs, self._seqs, self._jumping, self._lagging):
            known.clear()

    def feed(self, data: bytes, moment_ns: int) -> int:
        """Read what came; the common case is written out, since millions pass here: a whole message, whose numbers rise
        by one."""
        if self._buffer:
            data = self._buffer + data
        decode, seqs, last, fine = self._decode, self._seqs, self._last, self.latency.fine
        at, end, count, measuring = 0, len(data), 0, self.tally.measuring and self.counted
        while end - at >= 2:
            size, start = data[at + 1], at + 2
            if size == 126:
                start = at + 4
                size = int.from_bytes(data[at + 2 : start])
            elif size == 127:
                start = at + 10
                size = int.from_bytes(data[at + 2 : start])
            following = start + size
            if end < following:
                break
            frame = data[start:following]
            if data[at] & 15 > 2 or frame[0] == 0x7B or frame[0] & 0xF0 == 0x80:
                self._other(data[at] & 15, frame)
                at = following
                continue
            at = following
            message = decode(frame)
            sid, seq = message[0], message[1]
            count += 1
            try:
                sent, subject, text, _ = message[3].split(" ", 3)
                number = int(text)
            except (ValueError, TypeError, AttributeError):
                self._foreign(sid, seq, message[2])
                continue
            if seqs.get(sid) == seq - 1 and last.get(subject) == number - 1:
                seqs[sid] = seq
                last[subject] = number
                if measuring:
                    us = (moment_ns - int(sent[2:])) // 1000
                    if us < FINE_US:
                        fine[us] += 1
                    else:
                        self.latency.add(us)
            else:
                self._unusual(sid, seq, int(sent[2:]), subject, number, moment_ns)
        self._buffer = data[at:]
        self.tally.deliveries += count
        return count if self.counted else 0

    def _unusual(self, sid: int, seq: int, sent_ns: int, subject: str, number: int, moment_ns: int) -> None:
        """Note a message whose numbers do not both follow the last ones: the first one, or after a gap, or
        conflated."""
        jumps = self._sequenced(sid, seq)
        self._delivered(sent_ns, subject, number, moment_ns, jumps=jumps)

    def _foreign(self, sid: int, seq: int, t: int) -> None:
        """Note a message that the benchmark did not publish: its latency is from the server's time of it, by this
        clock."""
        known = self._seqs.get(sid)
        if not self._sequenced(sid, seq) and known is not None and seq > known + 1:
            self.tally.gaps += seq - known - 1
        if self.tally.measuring and self.counted:
            self.latency.add(int(time.time() * 1000 - self._base - t) * 1000)

    def _sequenced(self, sid: int, seq: int) -> bool:
        """Note a sequence number; return whether it may be any that is higher."""
        jumps = self._conflated or sid in self._jumping or sid in self._lagging
        if seq:
            known = self._seqs.get(sid)
            if known is not None and seq != known + 1 and not jumps:
                self.tally.out_of_sequence += 1
            self._seqs[sid] = seq
        self._jumping.discard(sid)
        return jumps

    def _other(self, opcode: int, frame: bytes) -> None:
        """Read a control frame, or an answer or event (protocol.md 1.3)."""
        if opcode == CLOSE:
            self.close_code = int.from_bytes(frame[:2])
        elif opcode <= BINARY:
            self._event(self._decode_event(frame))

    def _event(self, event: dict[str, Any]) -> None:
        match event["op"]:
            case "subscribed":
                for result in event["results"]:
                    if "sid" in result:
                        self._subscribed(result)
            case "connected" | "base":
                self._base = event["base"]
            case "epoch":
                self._epochs[event["sid"]] = event["epoch"]
            case "lagging":
                self._lagging.update(event["sids"])
                self.tally.note(self.tally.notices, "lagging")
            case "caught_up":
                self._lagging.difference_update(event["sids"])
                self._jumping.update(event["sids"])
                self.tally.note(self.tally.notices, "caught_up")
            case "notice" | "error" | "revoked" as op:
                self.tally.note(self.tally.notices, str(event.get("code", op)))

    def _subscribed(self, result: dict[str, Any]) -> None:
        sid = result["sid"]
        self._names[sid] = result["subject"]
        self._epochs[sid] = result["epoch"]
        if recovery := result.get("recovery"):
            self.tally.note(self.tally.recoveries, recovery)
            if recovery == "resynchronised":
                self._jumping.add(sid)
        if sid not in self._seqs:
            self._seqs[sid] = result["seq"] - result.get("messages", 0)
