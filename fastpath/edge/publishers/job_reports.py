"""The frame `report`: how far a job is, told on `/__sys__/jobs/JOB` and to who asks (protocol.md 6.16)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...core.auth.reasons import PENDING
from ...core.auth.rules import PUBLISH
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import Close, InvalidSubject, Refused
from ...core.protocol.messages import STANDARD, Message
from ...core.protocol.packets import Refusal
from ...core.protocol.subject import JOBS, check_subject
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from .connection import PublisherConnection

JOBS_MAX = 1000
"""Jobs that are remembered. One more takes the place of the one that has been silent for longest, if that is long."""

SILENT_MS = 3_600_000
"""Milliseconds for which a job is remembered in any case."""

LISTED_MAX = 200
"""Jobs in one answer, those that were heard of last."""

NAME_CHARS_MAX = 128
NAMES_MAX = 64
"""Names of fields that a job ever reports: its snapshot keeps them all."""

REPORT_CHARS_MAX = 8192
"""Characters of all names and texts of one report."""

RUN = "run"
"""The field that names the run of the job: how often it has changed is told in RESTARTS."""

RESTARTS = "restarts"


class Job(Struct):
    """The last report of a job: when (ms), from whom; a field that the job does not report any more is empty."""

    time: int
    user: str
    fields: dict[str, str]
    restarts: int = 0


class JobReports:
    """The reports of jobs in the process that publishers connect to: takes them, and answers ``jobs`` on the control
    socket."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._jobs: dict[str, Job] = {}  # in the order in which they were heard of, the last one last
        self.offers = Offers(verbs={"jobs": self._list}, frames={"report": self._report})

    def _report(self, connection: PublisherConnection, number: int, rest: list[Any]) -> None:
        """Take ``["report", n, job, {field: text}]``; a frame of another shape ends the connection: raise Refused."""
        match rest:
            case [str(job), dict(fields)] if all(map(_is_text, fields.items())):
                pass
            case _:
                raise Refused(Close.BAD_MESSAGE, 'report is ["report", n, job, {field: text}]')
        moment = now()
        guard = self._runtime.sessions.guard
        if guard is not None and guard.spend(connection, 0, 1, moment):
            connection.hold(True, PauseReason.RATE)
        refusal = self._refusal(connection, job, fields, moment)
        if refusal is not None:
            self._runtime.broker.counters.refused([refusal])
            connection.reply(["failed", number, *refusal])
            return
        self._take(job, fields, connection.current(moment).user, moment)
        connection.reply(["reported", number])

    def _refusal(
        self, connection: PublisherConnection, job: str, fields: dict[str, str], moment: int
    ) -> Refusal | None:
        """Return why the report is not taken."""
        subject = JOBS + job
        if not job or "/" in job or len(job) > NAME_CHARS_MAX:
            return "invalid", f"a job's name is one segment of a subject, at most {NAME_CHARS_MAX} characters"
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return "invalid", f"job {job!r}: {error.reason}"
        reason = self._runtime.broker.grants.check(connection.current(moment), PUBLISH, subject, moment)
        if reason:
            return ("not_ready" if reason in PENDING else "denied"), reason
        if sum(len(name) + len(text) for name, text in fields.items()) > REPORT_CHARS_MAX:
            return "too_large", f"over {REPORT_CHARS_MAX} characters in a report"
        known = self._jobs.get(job)
        if len({*fields, *(known.fields if known is not None else ())}) > NAMES_MAX:
            return "too_large", f"over {NAMES_MAX} names of fields in the reports of one job"
        return None if known is not None else self._full(moment)

    def _full(self, moment: int) -> Refusal | None:
        """Return why no other job can be remembered; makes room for one if it can."""
        broker = self._runtime.broker
        if len(broker.interest.topics) >= broker.limits.subjects_max:
            return "failed", f"the server already holds {broker.limits.subjects_max} subjects"
        if len(self._jobs) >= JOBS_MAX:
            oldest = next(iter(self._jobs))
            if moment - self._jobs[oldest].time < SILENT_MS:
                return "failed", f"the server already remembers {JOBS_MAX} jobs"
            del self._jobs[oldest]
        return None

    def _take(self, name: str, fields: dict[str, str], user: str, moment: int) -> None:
        before = self._jobs.pop(name, None)
        job = self._jobs[name] = Job(moment, user, fields)
        if before is not None:
            job.fields = dict.fromkeys(before.fields, "") | fields
            job.restarts = before.restarts + (before.fields.get(RUN) != fields.get(RUN))
        told: dict[str, str | bytes] = {**job.fields, RESTARTS: str(job.restarts)}
        message = Message(JOBS + name, fields.get("state", ""), told, qos=STANDARD)
        self._runtime.broker.publish_own(message, moment)

    def _list(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the jobs that were heard of last, the last one first."""
        del peer, arguments
        newest = list(self._jobs.items())[: -LISTED_MAX - 1 : -1]
        return {
            "now": now(),
            "total": len(self._jobs),
            "jobs": [
                {"job": name, "time": job.time, "user": job.user, "restarts": job.restarts, "fields": job.fields}
                for name, job in newest
            ],
        }


def _is_text(item: tuple[Any, Any]) -> bool:
    name, text = item
    return type(name) is str and type(text) is str and 0 < len(name) <= NAME_CHARS_MAX
