"""What the overview asks for every few seconds: nodes, alarms, busy subjects, slow clients, publishers, Spark jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.db import Error as DatabaseFailure
from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext

from fastpath.core.telemetry import senders
from realtime.monitoring import pages
from realtime.monitoring.questions import NodeAnswer, ask_node, ask_nodes
from realtime.nodes import nodes
from realtime.publishing.outbox.figures import outbox_figures
from realtime.stats import figures

ORDERS = {
    "rate": "messages_per_s",
    "bytes": "bytes_per_s",
    "subscribers": "subscribers",
    "deliveries": "deliveries_per_s",
}
"""Orders by which subjects can be called busy, and the figure that says how much."""

TOP_ASKED = 100
"""Busy subjects that each node is asked for: those that are on several add up."""

ROWS = 15
"""Rows of each list that the page shows; the Clients and Subjects pages have the rest."""

EXPLAINED = 5
"""Number of the slowest clients whose subscriptions are asked for."""

SUBJECTS_SHOWN = 4
"""Number of their subscriptions that are named."""

JOBS_SHOWN = 50

SILENT_MS = 15_000
"""A job reports each second. One that has not for so long, and has not said that it ended, is called silent."""

OUTBOX_LATE_SECONDS = 10
"""Messages leave the outbox within a second."""

ENDED = frozenset({"stopped", "done", "failed"})
"""States after which nothing more comes."""


@pages.data
def attention(request: HttpRequest) -> JsonResponse:
    """Answer ``sums``, ``top`` (?by=rate, bytes, subscribers, deliveries), ``slow``, ``publishers``, ``jobs`` of all
    nodes.

    ``alarms`` are sentences about what somebody has to put right. ``errors`` says which node did not answer what; the
    others' answers are there all the same.
    """
    by = request.GET.get("by", "rate")
    if by not in ORDERS:
        return JsonResponse({"detail": f"by is one of {', '.join(ORDERS)}"}, status=400)
    top = ask_nodes("top", {"by": by, "limit": TOP_ASKED})
    slow = ask_nodes("clients", {"slow": True, "limit": ROWS})
    publishers = ask_nodes("publishers", {"limit": ROWS})
    jobs = ask_nodes("jobs", {})
    states = [state_now(state, answer) for state, answer in zip(nodes.states(), top, strict=True)]
    return JsonResponse(
        {
            "nodes": [node_row(state) for state in states],
            "sums": sums(states),
            "top": busiest_subjects(top, ORDERS[by]),
            "slow": _slow(slow),
            "publishers": publisher_rows(publishers),
            "jobs": job_rows(jobs),
            "alarms": [*_alarms(states), *_outbox_alarms()],
            "errors": _errors((*top, *slow, *publishers, *jobs)),
        }
    )


def sums(states: Iterable[nodes.State]) -> dict[str, float]:
    """Return the figures over all nodes, as the fields of /__sys__/cluster: those on one Redis deliver the same
    messages."""
    return figures.cluster((state.figures, state.hello.get("shared", False)) for state in states)


def state_now(state: nodes.State, answer: NodeAnswer) -> nodes.State:
    """Return the node as it is: one that has just not answered is away, whatever it said before."""
    if answer.error and not answer.refused:
        return nodes.State(state.address, error=state.error or answer.error)
    return state


def _alarms(states: Sequence[nodes.State]) -> Iterator[str]:
    """Yield what somebody has to put right though clients notice nothing yet, a sentence each."""
    for state in states:
        if said := state.warnings.get("agent"):
            yield gettext(
                "%(node)s: %(reason)s. Who signs out or is deactivated reads on. Does runrealtime or manage.py "
                "realtime_agent run?"
            ) % {"node": state.name, "reason": said}
    for said in dict.fromkeys(state.warnings.get("rights", "") for state in states):
        if said:
            words = gettext("Rules, users, sessions or options are %(reason)s. Correct or delete them.")
            yield words % {"reason": said}
    missing = max((int(state.figures.get("triggers_missing", 0)) for state in states), default=0)
    if missing:
        yield gettext(
            "%(count)s triggers of the database are missing. Changes of rights are found by comparing the tables, "
            "for as long as an agent runs. Run manage.py migrate; manage.py check --database default names them."
        ) % {"count": missing}


def _outbox_alarms() -> Iterator[str]:
    """Yield what is wrong with the outbox, if there is one."""
    try:
        found = outbox_figures()
    except DatabaseFailure as error:
        yield gettext("The outbox cannot be read: %(error)s.") % {"error": " ".join(str(error).split())}
        return
    if found is not None and found.oldest_seconds >= OUTBOX_LATE_SECONDS:
        yield gettext(
            "%(count)s messages wait in the outbox, the oldest for %(seconds).0f s. Is manage.py realtime_outbox at "
            "work, and does a sidecar answer? Its log says what is wrong."
        ) % {"count": found.waiting, "seconds": found.oldest_seconds}
    if found is not None and found.set_aside:
        yield gettext(
            "%(count)s messages of the outbox were refused and set aside. The admin shows why, and sends them again."
        ) % {"count": found.set_aside}


def node_row(state: nodes.State) -> dict[str, Any]:
    """Return a node as in the content of /__sys__/cluster, which the page may have no right to read, and what is
    wrong."""
    return figures.node(state.name, state.error, state.figures) | {
        "draining": state.draining,
        "reasons": state.reasons,
        "starved": figures.starved(state.figures),
    }


def busiest_subjects(answers: Iterable[NodeAnswer], order: str) -> list[dict[str, Any]]:
    """Merge the busiest subjects of all nodes: each has clients of its own, and messages, but for those that share an
    engine."""
    subjects: dict[str, dict[str, Any]] = {}
    same: dict[str, dict[str, float]] = {}  # what of a figure is counted already of messages that several nodes deliver
    for answer in answers:
        shared = answer.value.get("shared", False)
        for row in answer.value.get("subjects", ()):
            known = subjects.setdefault(row["subject"], {"subject": row["subject"]} | dict.fromkeys(ORDERS.values(), 0))
            for name in ORDERS.values():
                value = row.get(name) or 0
                if shared and name in ("messages_per_s", "bytes_per_s"):
                    counted = same.setdefault(row["subject"], {})
                    value, counted[name] = max(0, value - counted.get(name, 0)), max(value, counted.get(name, 0))
                known[name] += value
    return sorted(subjects.values(), key=lambda row: (-row[order], row["subject"]))[:ROWS]


def _slow(answers: Iterable[NodeAnswer]) -> dict[str, Any]:
    """Return the clients with the longest queues, and what the first few of them are subscribed to."""
    rows = [
        {**row, "node": answer.index, "node_name": answer.name, "url": _client_url(answer.index, row["connection"])}
        for answer in answers
        for row in answer.value.get("clients", ())
    ]
    rows.sort(key=lambda row: -(row.get("queue_bytes") or 0))
    for row in rows[:EXPLAINED]:
        client = ask_node(row["node"], "client", {"connection": row["connection"]}).value
        held = [(one.get("behind") or 0, one["subject"]) for one in client.get("subscriptions", ())]
        row["subjects"] = [subject for _, subject in sorted(held, reverse=True)[:SUBJECTS_SHOWN]]
    return {"clients": rows[:ROWS], "total": sum(answer.value.get("total") or 0 for answer in answers)}


def publisher_rows(answers: Sequence[NodeAnswer]) -> dict[str, Any]:
    """Return the publishers: who waits longest for an acknowledgement first, then the busiest.

    ``senders`` are theirs over all connections.
    """
    rows = [{**row, "node_name": answer.name} for answer in answers for row in answer.value.get("publishers", ())]
    rows.sort(key=lambda row: (-(row.get("oldest_ms") or 0), -(row.get("messages_per_s") or 0)))
    sent = senders.together(row for answer in answers for row in answer.value.get("senders", ()))
    total = sum(answer.value.get("total") or 0 for answer in answers)
    return {"publishers": rows[:ROWS], "senders": senders.shown(sent, ROWS), "total": total}


def job_rows(answers: Iterable[NodeAnswer]) -> dict[str, Any]:
    """Return what each job has said last, on whichever node; those that need a look first, then by name.

    Ages are by the node's own clock: ``age_ms`` since the last report.
    """
    jobs: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for job in answer.value.get("jobs", ()):
            age = max(0, answer.value["now"] - job["time"])
            if job["job"] not in jobs or age < jobs[job["job"]]["age_ms"]:
                silent = age > SILENT_MS and job["fields"].get("state") not in ENDED
                jobs[job["job"]] = {**job, "age_ms": age, "silent": silent}
    rows = sorted(
        jobs.values(), key=lambda job: (not job["silent"], job["fields"].get("state") != "failed", job["job"])
    )
    return {"jobs": rows[:JOBS_SHOWN], "total": len(rows)}


def _client_url(node: int, connection: str) -> str:
    return reverse("realtime:monitoring_client", args=(node, connection))


def _errors(answers: Iterable[NodeAnswer]) -> list[str]:
    """Return each error only once."""
    return list(dict.fromkeys(f"{answer.name}: {answer.error}" for answer in answers if answer.error))
