"""Hands questions to the processes of Django that run the hook: in turn, and to nobody more than his share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ...core.auth.hook_questions import LATE, HookReply
from ...core.auth.reasons import AWAY
from ..runtime.component import ControlPeer

WINDOW = 256
"""Questions that one runner may have without an answer."""

TURN_MAX = 16
"""Questions about one user, or one address where there is none, at a time: a user waits for nobody else's."""

PASSED_SECONDS = 60
"""Seconds that one that was late is passed over for the others; then it gets a single question, until it answers."""

TOLD_BYTES_MAX = 1 << 20
"""Bytes that wait for a runner while which what is only told (of connections that have ended) is dropped."""


class PendingQuestion:
    """A question on its way: of which worker, in whose turn, and until when (seconds of the loop)."""

    __slots__ = ("about", "deadline", "number", "runner", "turn", "worker")

    def __init__(self, worker: int, number: int, turn: str, about: dict[str, Any], deadline: float) -> None:
        self.worker = worker
        self.number = number
        self.turn = turn
        self.about = about
        self.deadline = deadline
        self.runner: ControlPeer | None = None


class Runners:
    """All runners that are connected, and the questions of all workers."""

    def __init__(self, seconds: float, answered: Callable[[int, int, HookReply], None]) -> None:
        self._seconds = seconds
        self._answered = answered
        self._busy: dict[ControlPeer, int] = {}  # the runners, the next one first
        self._late: dict[ControlPeer, float] = {}  # those of them that are passed over, until when
        self._moment = 0.0
        self._count = 0
        self._asks: dict[int, PendingQuestion] = {}  # not answered yet, in the order of their deadlines
        self._waiting: dict[str, deque[int]] = {}  # by whose turn it is, the next one first
        self._full: dict[str, deque[int]] = {}  # of those who have their share out
        self._out: dict[str, int] = {}  # how many that is
        self.asked = 0
        self.late = 0
        self.untold = 0
        """Ends of connections that the runners were not told."""

    def __len__(self) -> int:
        return len(self._busy)

    @property
    def open(self) -> int:
        """Questions without an answer."""
        return len(self._asks)

    def add(self, peer: ControlPeer) -> None:
        """Add a runner; one that comes again is no other one."""
        if peer not in self._busy:
            self._busy[peer] = 0
            peer.ended.append(lambda: self._remove(peer))
        self._pump()

    def ask(self, worker: int, number: int, turn: str, about: dict[str, Any], moment: float) -> None:
        """Ask as soon as there is room; what the answer is, or that there is none, comes by ``answered``."""
        self._count += 1
        self._asks[self._count] = PendingQuestion(worker, number, turn, about, moment + self._seconds)
        self._queue(turn).append(self._count)
        self._pump()

    def tell(self, about: dict[str, Any]) -> None:
        """Say what needs no answer, to one of them that has room."""
        for peer in sorted(self._busy, key=self._late.__contains__):
            if peer.waiting() < TOLD_BYTES_MAX:
                peer.push("ask", {"ask": 0, **about})
                return
        self.untold += 1

    def heard(self, peer: ControlPeer) -> None:
        """Note that the worker answers, be it late: it is asked as the others are."""
        self._late.pop(peer, None)

    def answer(self, number: int, reply: HookReply) -> None:
        """Take a runner's answer; a late one is of no use."""
        ask = self._asks.pop(number, None)
        if ask is not None:
            self._release(ask)
            self._answered(ask.worker, ask.number, reply)
            self._pump()

    def tick(self, moment: float) -> None:
        """Give up what nobody has answered in time."""
        self._moment = moment
        over = []
        for number, ask in self._asks.items():
            if ask.deadline > moment:
                break
            over.append(number)
        for number in over:
            ask = self._asks.pop(number)
            self._release(ask)
            if ask.runner is not None:
                self.late += 1
                self._late[ask.runner] = moment + PASSED_SECONDS
            self._answered(ask.worker, ask.number, HookReply(failed=AWAY if ask.runner is None else LATE))
        if over:
            self._pump()

    def _queue(self, turn: str) -> deque[int]:
        if turn in self._full:
            return self._full[turn]
        return self._waiting.setdefault(turn, deque())

    def _pump(self) -> None:
        """Hand out what can be handed out, one of each who waits in turn."""
        while self._waiting:
            peer = self._free()
            if peer is None:
                return
            turn, queue = next(iter(self._waiting.items()))
            del self._waiting[turn]
            while queue and queue[0] not in self._asks:
                queue.popleft()  # given up meanwhile
            if not queue:
                continue
            number = queue.popleft()
            ask = self._asks[number]
            ask.runner = peer
            self._busy[peer] += 1
            self._out[turn] = self._out.get(turn, 0) + 1
            self.asked += 1
            if queue:
                (self._full if self._out[turn] >= TURN_MAX else self._waiting)[turn] = queue
            elif self._out[turn] >= TURN_MAX:
                self._full[turn] = queue
            peer.push("ask", {"ask": number, **ask.about})

    def _free(self) -> ControlPeer | None:
        """Return the next runner that has room; one of those that were late only where all were."""
        all_late = len(self._late) == len(self._busy)
        for peer, busy in self._busy.items():
            until = None if all_late else self._late.get(peer)
            if busy < (WINDOW if until is None else int(self._moment >= until)):
                self._busy[peer] = self._busy.pop(peer)  # behind all others
                return peer
        return None

    def _release(self, ask: PendingQuestion) -> None:
        if ask.runner is None:
            return
        if ask.runner in self._busy:
            self._busy[ask.runner] -= 1
        turn = ask.turn
        self._out[turn] -= 1
        if not self._out[turn]:
            del self._out[turn]
        queue = self._full.pop(turn, None)
        if queue:
            self._waiting[turn] = queue

    def _remove(self, peer: ControlPeer) -> None:
        """Remove a runner that is gone: what it was asked goes to another one."""
        del self._busy[peer]
        self._late.pop(peer, None)
        for number, ask in reversed(list(self._asks.items())):
            if ask.runner is peer:
                self._release(ask)
                ask.runner = None
                self._queue(ask.turn).appendleft(number)
        self._pump()
