"""Judges which worker hangs, by what it does, CPU time used and waited for, and not by the clock alone.

A worker beats once a second. One that is silent is charged with time of its own: CPU time that it used, and time in
which it neither ran nor waited for a CPU (it is blocked or stopped) while the parent that looks was itself running.
``hang_seconds`` of that are a hang. Time in which it waited for a CPU is nobody's: a worker that is starved is told of,
and never killed. Several that are silent at once mean the machine: then none is killed for being blocked, only one that
used CPU time in that measure, which no machine makes it do. One is killed at a time, and the others are judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ..awake import AwakeClock

LOOK_SECONDS = 0.25
"""Seconds between two looks at the workers."""

LATE_SECONDS = 2 * LOOK_SECONDS
"""A look that comes so late says that the parent did not run: what others did not do meanwhile counts for nothing."""

SILENT_SECONDS = 1.5
"""Seconds without a beat after which a worker is silent: one a second is due."""

ANSWER_SECONDS = 1.0
"""Seconds that a worker which hangs has to tell where, before it is killed."""

REPLACED_SECONDS = 30.0
"""The next one is judged anew when the one that was killed serves again, or after so long."""


class Work(NamedTuple):
    """The work of a process since it began, as the kernel tells it."""

    ran: float
    """CPU time used by all its threads (s)."""
    waited: float
    """Time for which its threads could have run and had no CPU (s), up to when they ran last."""
    runnable: bool
    """True while one of the worker's threads runs, or waits for a CPU."""


class HangVerdict(Enum):
    """The decision about a worker: what is to be done, or told."""

    STARVED = "it gets no CPU; leave it alone"
    HANGS = "ask where it stands"
    KILL = "it did not go on"
    MACHINE = "several are silent at once; leave them alone"


class Silence:
    """The silence of one worker between two beats; all in seconds."""

    def __init__(self, credit: float) -> None:
        self._credit = credit
        self._last: Work | None = None
        self._looked = False
        self.silent = 0.0
        """Seconds since the worker's last beat, as far as the parent was awake."""
        self.ran = self.waited = self.blocked = 0.0
        """Seconds since the worker was first looked at: CPU time used, CPU time waited for, and neither of them."""
        self.told: set[HangVerdict] = set()
        """Verdicts that were told of the worker, and are to be taken back when it beats."""

    @property
    def own(self) -> float:
        """Time that was its own to beat in."""
        return self._credit + self.ran + self.blocked

    def look(self, counted: float, late: bool, work: Work | None) -> None:
        """Add ``counted`` seconds for which the parent was awake; ``late``: the look itself came late. ``work`` None:
        the system tells nothing of processes."""
        self.silent += counted
        if self.silent < SILENT_SECONDS:
            return
        last, self._last = self._last, work
        if not self._looked:
            self._looked = True
            return
        ran = waited = 0.0
        if work is not None and last is not None:  # a thread that has ended takes its numbers with it
            ran, waited = max(0.0, work.ran - last.ran), max(0.0, work.waited - last.waited)
        rest = max(0.0, counted - ran)
        if work is not None:
            waited = rest if work.runnable else min(waited, rest)
        self.ran += ran
        self.waited += waited
        if not late:
            self.blocked += rest - waited

    def excuse(self) -> None:
        """Excuse the worker: the machine stood still. The CPU time that the worker used is its own all the same."""
        self._credit = self.blocked = 0.0

    def anew(self) -> None:
        """Begin to judge it again, silent as it is."""
        self._last, self._looked = None, False
        self.ran = self.waited = self.blocked = 0.0


Found = tuple[HangVerdict, int, Silence]
"""A verdict, the worker's number, and what it was found from."""


class Judge:
    """Judges all workers that serve; ``moment`` is in monotonic seconds, and ``hang_seconds`` 0 judges nobody."""

    def __init__(self, hang_seconds: float, moment: float) -> None:
        self._hang_seconds = hang_seconds
        self._credit = min(SILENT_SECONDS, hang_seconds / 2)  # the time until it was first looked at
        self._crowd_seconds = max(SILENT_SECONDS, hang_seconds / 2)
        self._clock = AwakeClock(LATE_SECONDS, moment)
        self._silences: dict[int, Silence] = {}
        self._suspect: int | None = None
        self._killed: int | None = None
        self._until = 0.0  # by our clock: when the suspect has had its time to answer, or the killed one its to return

    @property
    def silent(self) -> list[int]:
        """Workers whose work is wanted at the next look."""
        if not self._hang_seconds:
            return []
        return [worker for worker, silence in self._silences.items() if silence.silent >= SILENT_SECONDS - LATE_SECONDS]

    @property
    def crowd(self) -> list[int]:
        """Several workers that are silent at once; empty when none is, or one alone."""
        found = [worker for worker, silence in self._silences.items() if silence.silent >= self._crowd_seconds]
        return found if len(found) > 1 else []

    def begin(self, worker: int) -> None:
        """Begin to watch a worker that serves from now on."""
        self._silences[worker] = Silence(self._credit)
        if worker == self._killed:
            self._judge_anew()

    def end(self, worker: int) -> None:
        """Stop watching a worker that is no more."""
        self._silences.pop(worker, None)
        if worker == self._suspect:
            self._suspect = None

    def heard(self, worker: int) -> Silence | None:
        """Note a worker's beat; return how it was silent, if something was said of that."""
        before = self._silences[worker]
        self._silences[worker] = Silence(self._credit)
        if worker == self._suspect:
            self._suspect = None
        return before if before.told else None

    def look(self, moment: float, works: Mapping[int, Work | None]) -> list[Found]:
        """Judge all workers; called every LOOK_SECONDS or sooner, after their beats were heard. ``works`` is what the
        ``silent`` did."""
        counted = self._clock.tick(moment)
        if not self._hang_seconds:
            return []
        for worker, silence in self._silences.items():
            silence.look(counted, self._clock.late, works.get(worker))
        if self._killed is not None and self._clock.time >= self._until:
            self._judge_anew()
        return [*self._starved(), *self._machine(), *self._hung()]

    def _starved(self) -> list[Found]:
        """Find the workers that are silent for too long, a quarter of it for want of a CPU."""
        found = []
        for worker, silence in self._silences.items():
            starved = silence.silent >= self._hang_seconds and silence.waited >= self._hang_seconds / 4
            if starved and HangVerdict.STARVED not in silence.told:
                silence.told.add(HangVerdict.STARVED)
                found.append((HangVerdict.STARVED, worker, silence))
        return found

    def _machine(self) -> list[Found]:
        """Find the workers that are silent for too long at the same time as others are, which may be so for less."""
        found = []
        for worker in self.crowd:
            silence = self._silences[worker]
            silence.excuse()
            if silence.silent >= self._hang_seconds and HangVerdict.MACHINE not in silence.told:
                silence.told.add(HangVerdict.MACHINE)
                found.append((HangVerdict.MACHINE, worker, silence))
        return found

    def _hung(self) -> list[Found]:
        """Decide about silent workers one by one: each has time to answer, and a killed one is replaced first."""
        if self._killed is not None:
            return []
        hung = [worker for worker, silence in self._silences.items() if silence.own >= self._hang_seconds]
        if self._suspect not in hung:
            self._suspect = None
        if self._suspect is None:
            if not hung:
                return []
            self._suspect, self._until = hung[0], self._clock.time + ANSWER_SECONDS
            silence = self._silences[hung[0]]
            silence.told.add(HangVerdict.HANGS)
            return [(HangVerdict.HANGS, hung[0], silence)]
        if self._clock.time < self._until:
            return []
        self._killed, self._suspect = self._suspect, None
        self._until = self._clock.time + REPLACED_SECONDS
        return [(HangVerdict.KILL, self._killed, self._silences.pop(self._killed))]

    def _judge_anew(self) -> None:
        self._killed = None
        for silence in self._silences.values():
            silence.anew()
