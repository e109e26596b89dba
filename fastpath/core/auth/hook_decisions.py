"""What a hook in Django is asked about each connection, and what it has answered (protocol.md 8.7): no I/O.

A right that only the hook knows is ASKED for now. It is noted as wanted, goes out with the connection's next question,
and whoever waits for it (``HookSubject``) is told when the answer is there, or is known not to come. A connection has
one question open at a time, and is asked about several subjects at once.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable

from .hook_questions import CONNECT, LATE, SUBJECTS_MAX, TOKEN, HookReply, HookSubject, Key, Question, about_party
from .reasons import ASKED, AWAY
from .rules import PUBLISH, SUBSCRIBE

ROOM = 10_000
"""Answers, and questions to come, that are kept of one connection besides those about its own subscriptions."""

DEAD_MAX = 1000
"""Connections that are gone and are still noted; above that they are looked for."""

SLICE = 500
"""Subjects looked at in one turn, after which everybody else has theirs."""

GRACE_MS = 1000
"""Milliseconds by which a question is given up here later than where it was asked for: usually the asker says that
nobody answers."""

FOR_EVER = 1 << 62
ONCE = -1
"""The end of an answer that is for one time: longer than that it counts only for what it has started."""

RETRY_MS = 500
"""Milliseconds after which the hook is asked again about what it has not answered."""


class HookState:
    """The state of one connection: what is known by the hook's answers, and what is wanted."""

    __slots__ = (
        "_room",
        "asking",
        "due",
        "fresh",
        "known",
        "losses",
        "most",
        "number",
        "party",
        "sent",
        "stale",
        "user",
        "wanted",
    )

    def __init__(self, asking: HookDecisions, party: HookSubject) -> None:
        self.asking = asking
        self.party: HookSubject | None = party
        self.known: dict[Key, tuple[str, int]] = {}  # the reason, empty for yes, and until when it counts
        self.fresh: set[Key] = set()
        """Answers that count though they are for this once: what waited for them goes on just now."""
        self.wanted: dict[Key, None] = {}
        self.number = 0  # of the question that is open
        self.sent: frozenset[Key] = frozenset()  # what it is about
        self.stale = False  # it is to be asked again: the answer that comes counts until then
        self.most = SUBJECTS_MAX  # subjects in its next question
        self.losses = 0
        """Number of times that a decision about publishing was forgotten, or was replaced by another one."""
        self.due = 0  # when the first of its answers ends; 0: none does
        self.user: str | None = None
        """Name of the user whom the connection acts for, as the hook says."""
        self._room = ROOM

    def check(self, event: str, subject: str, now: int) -> str:
        """Return an empty text when the hook allows the event, its reason why not, or ASKED."""
        key = event, subject
        known = self.known.get(key)
        if known is not None and (now < known[1] or key in self.fresh):
            return known[0]
        self.want(key)
        return ASKED

    def holds(self, subject: str, now: int) -> str:
        """Return why a running subscription may not go on; it does while the hook is asked again."""
        key = SUBSCRIBE, subject
        known = self.known.get(key)
        if known is not None and (now < known[1] or key in self.fresh):
            return known[0]
        if known is None or known[1] != ONCE:
            self.want(key)
        return ""

    def offers(self, subject: str, now: int) -> str:
        """Return why the connection may not offer to publish this, as far as is known: an answer for once decides as
        well."""
        known = self.known.get((PUBLISH, subject))
        if known is not None and known[1] == ONCE:
            return known[0]
        return self.check(PUBLISH, subject, now)

    def want(self, key: Key) -> None:
        """Ask for the right with the next question."""
        if self.party is not None and key not in self.sent:
            self._make_room()
            self.wanted[key] = None
            self.asking.enqueue(self)

    def renew(self, another: bool = False) -> None:
        """Ask anew about everything, when it is needed next; what runs goes on meanwhile, but for ``another`` user only
        until it is known that nobody answers.

        What is being asked about the user before does not count for the other one.
        """
        self.losses += 1
        self.stale = self.number != 0
        for key in list(self.known):
            if key[0] == SUBSCRIBE and not another:
                self.known[key] = self.known[key][0], 0
            elif key[0] != CONNECT:
                del self.known[key]
        if another and self.number:
            withdrawn = self.sent
            self.asking.withdraw(self)
            for key in withdrawn:
                self.want(key)

    def note(self, key: Key, reason: str, until: int) -> None:
        """Note that this is the answer, until then."""
        self._make_room()
        if key[0] == PUBLISH and self.known.get(key, (reason,))[0] != reason:
            self.losses += 1
        self.known[key] = reason, until

    def _make_room(self) -> None:
        """Forget what the connection does not use any more, or can ask for again, when there is much."""
        if len(self.known) + len(self.wanted) < self._room or self.party is None:
            return
        uses = self.party.uses
        self.known = {key: known for key, known in self.known.items() if uses(key, strictly=True)}
        self.wanted = {key: None for key in self.wanted if not key[1] or uses(key, strictly=True)}
        self._room = len(self.known) + len(self.wanted) + ROOM

    def close(self) -> None:
        """Let go of the connection, which is gone: what is answered from now on is of no use."""
        self.party = None
        self.wanted.clear()
        self.known.clear()
        self.asking.forget(self)


class HookDecisions:
    """All that one process asks: who has something to ask, which questions are open, and which answers end when."""

    def __init__(self, events: Iterable[str], seconds: int) -> None:
        self.events = frozenset(events)
        self._wake: Callable[[], None] = lambda: None
        self._fault: Callable[[Exception], None] = lambda error: None
        self._patience_ms = seconds * 1000 + GRACE_MS
        self._count = 0
        self._ready: dict[HookState, None] = {}
        self._open: dict[int, tuple[HookState, str, list[str], int]] = {}  # with its deadline: they come in that order
        self._ends: list[tuple[int, int, HookState]] = []  # a heap: when the first answer of that connection ends
        self._dead = 0  # of these
        self._again: deque[tuple[HookState, deque[Key]]] = deque()

    def run_by(self, wake: Callable[[], None], fault: Callable[[Exception], None]) -> None:
        """Have ``wake`` called when there is something to do, which ``step`` does, and ``fault`` told of each fault in
        what is said of one party, which has ended that one."""
        self._wake, self._fault = wake, fault

    @property
    def open(self) -> int:
        """Questions without an answer."""
        return len(self._open)

    def enqueue(self, asked: HookState) -> None:
        """Queue a connection that has something to ask."""
        if not asked.number and asked not in self._ready:
            self._ready[asked] = None
            self._wake()

    def forget(self, asked: HookState) -> None:
        """Forget a connection that has nothing to ask any more."""
        self._ready.pop(asked, None)
        self.withdraw(asked)
        if asked.due:
            asked.due = 0
            self._bury()

    def withdraw(self, asked: HookState) -> None:
        """Withdraw the open question of this connection, if there is any: nobody needs its answer."""
        if asked.number:
            del self._open[asked.number]
            asked.number, asked.sent, asked.stale = 0, frozenset(), False

    def recheck(self, asked: HookState) -> None:
        """Ask again at once about all that the connection uses, and whether it may go on at all."""
        if asked.party is not None:
            asked.stale = asked.number != 0  # it may have been decided before what has changed
            self._again.append((asked, deque(asked.known)))
            self._wake()

    def step(self, now: int) -> tuple[list[Question], bool]:
        """Return the next questions, up to a slice of work, and whether there is more to do."""
        left = SLICE
        while self._again and left > 0:
            left -= self._look_again(left)
        questions = []
        while self._ready and left > 0:
            asked = next(iter(self._ready))
            del self._ready[asked]
            try:
                question = self._question(asked, now)
            except Exception as error:
                left -= 1
                if asked.party is not None:
                    asked.party.fail()
                self._fault(error)
                continue
            if question is not None:
                left -= 1 + len(question.about.get("subjects", ()))
                questions.append(question)
        return questions, bool(self._ready or self._again)

    def tick(self, now: int) -> None:
        """Give up questions that nobody will answer, and look again at answers that have ended; this is called
        often."""
        late = []
        for number, (_, _, _, deadline) in self._open.items():
            if deadline > now:
                break
            late.append(number)
        for number in late:
            self.answer(number, HookReply(failed=AWAY), now)
        while self._ends and self._ends[0][0] <= now:
            moment, _, asked = heapq.heappop(self._ends)
            if moment != asked.due:
                self._dead -= 1
                continue
            self._again.append((asked, deque(key for key, (_, until) in asked.known.items() if 0 < until <= now)))
            asked.due = 0
            first = min((until for _, until in asked.known.values() if now < until < FOR_EVER), default=0)
            self._note_end(asked, first)
            self._wake()

    def answer(self, number: int, reply: HookReply, now: int) -> bool:
        """Note what the hook says, and tell whoever waits; False when nobody does any more. What is raised by a
        fault has ended the connection before."""
        asked, event, subjects, _ = self._open.pop(number, (None, "", [], 0))
        if asked is None:
            return False
        stale, asked.number, asked.sent, asked.stale = asked.stale, 0, frozenset(), False
        if not reply.failed and len(reply.verdicts) != len(subjects or ("",)) and reply.disconnect is None:
            reply = HookReply(failed=LATE)
        if subjects and reply.failed == LATE:
            asked.most = max(1, len(subjects) // 2)
        elif len(subjects) == asked.most:
            asked.most = min(SUBJECTS_MAX, asked.most + 1 + asked.most // 8)
        self._note(asked, event, subjects or [""], reply, now, stale)
        party = asked.party
        try:
            if party is not None and party.answered(event, subjects, reply, now):
                asked.fresh.clear()
        except Exception:
            if party is not None:
                party.fail()
            raise
        if asked.wanted:
            self.enqueue(asked)
        return True

    def _question(self, asked: HookState, now: int) -> Question | None:
        """Return the question about what the connection wants most: to be let in, to go on, then all else, of one event
        at a time."""
        if asked.party is None:
            return None
        uses = asked.party.uses
        asked.wanted = {key: None for key in asked.wanted if key[0] != SUBSCRIBE or uses(key)}
        if not asked.wanted:
            return None
        events = {key[0] for key in asked.wanted}
        event = next(one for one in (CONNECT, TOKEN, PUBLISH, SUBSCRIBE) if one in events)
        keys = [key for key in asked.wanted if key[0] == event][: asked.most]
        subjects = [subject for _, subject in keys if subject]
        about = about_party(event, asked.party.facts())
        for key in keys:
            del asked.wanted[key]
        self._count += 1
        asked.number, asked.sent = self._count, frozenset(keys)
        self._open[self._count] = asked, event, subjects, now + self._patience_ms
        if subjects:
            about["subjects"] = subjects
        return Question(self._count, str(about.get("user") or about.get("address") or ""), about)

    def _note(self, asked: HookState, event: str, subjects: list[str], reply: HookReply, now: int, stale: bool) -> None:
        ends = 0
        for index, subject in enumerate(subjects):
            key = event, subject
            if reply.failed and event in (CONNECT, SUBSCRIBE):
                # What runs goes on, and what waits, waits.
                until = now + RETRY_MS
                asked.note(key, asked.known.get(key, (ASKED, 0))[0], until)
                ends = min(ends or until, until)
                continue
            asked.fresh.add(key)
            if reply.failed or reply.disconnect is not None:
                asked.note(key, reply.failed or "the hook ends the connection", 0 if reply.failed else ONCE)
                continue
            verdict = reply.verdicts[index]
            reason = "" if verdict.allow else (verdict.reason or "the hook denies it")
            if stale:
                asked.note(key, reason, 0)
                if event in (CONNECT, SUBSCRIBE):
                    asked.want(key)
                continue
            until = FOR_EVER if verdict.seconds is None else now + int(verdict.seconds * 1000)
            if now < until < FOR_EVER:
                ends = min(ends or until, until)
            asked.note(key, reason, until if until > now else ONCE)
        self._note_end(asked, ends)

    def _note_end(self, asked: HookState, moment: int) -> None:
        """Come back then, when the first of its answers ends; 0: not for these."""
        if not moment or (asked.due and asked.due <= moment) or asked.party is None:
            return
        if asked.due:
            self._bury()
        asked.due = moment
        self._count += 1
        heapq.heappush(self._ends, (moment, self._count, asked))

    def _bury(self) -> None:
        """Count a note that is void: such notes are taken out when they are many."""
        self._dead += 1
        if self._dead > DEAD_MAX and self._dead * 2 > len(self._ends):
            self._ends = [entry for entry in self._ends if entry[0] == entry[2].due]
            heapq.heapify(self._ends)
            self._dead = 0

    def _look_again(self, count_max: int) -> int:
        """Ask again about what is used of the next connection; how much was looked at."""
        asked, keys = self._again[0]
        looked = 1
        while keys and looked <= count_max:
            key = keys.popleft()
            looked += 1
            if asked.party is None or key not in asked.known:
                continue
            if asked.party.uses(key):
                asked.known[key] = asked.known[key][0], 0
                asked.want(key)
            elif key[0] != CONNECT:
                asked.losses += key[0] == PUBLISH
                del asked.known[key]
        if not keys:
            self._again.popleft()
        return looked
