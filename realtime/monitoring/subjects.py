"""The page Subjects: the tree of what is published, and of one subject its snapshot, history, subscribers and rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext

from entitlement.patterns import reason_words
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_subject, is_system
from realtime.monitoring import pages
from realtime.monitoring.questions import NodeAnswer, ask_node, ask_nodes

SEGMENTS = 100
"""Segments that a level of the tree shows at once."""

MESSAGES = 20
"""Messages on a page of the history."""

TEXT_MAX = 512
"""A subject is not longer."""


@pages.page
def subjects(request: HttpRequest) -> HttpResponse:
    """Show the tree, open as far as the chosen ``subject``, with all that there is to say about that."""
    return show(request, request.GET.get("subject", "").strip())


def show(request: HttpRequest, subject: str, failed: str = "") -> HttpResponse:
    """Show the page of a subject; with what was typed, and why it ``failed``, when nothing could be published."""
    subject = subject[:TEXT_MAX]
    error = _wrong(subject)
    # The last, empty segment opens what is below the place.
    path = _segments(subject) or [*_segments(request.GET.get("open", "")[:TEXT_MAX]), ""]
    context = pages.context(request, gettext("Subjects")) | {
        "subject": subject,
        "error": error,
        "failed": failed,
        "form": request.POST if failed else None,
        # A page that brings itself up to date has its tree, and leaves that as the reader has opened it.
        "level": None if request.headers.get("X-Live") else _level("", path),
    }
    if subject and not error:
        context |= _chosen(request, subject)
    return render(request, "realtime/monitoring/subjects.html", context, status=400 if failed else 200)


@pages.data
def tree(request: HttpRequest) -> HttpResponse:
    """Answer a level of the tree as HTML: what stands below ``prefix``, behind ``after``, and only what ``begins``
    so."""
    prefix, begins, after = (request.GET.get(name, "")[:TEXT_MAX] for name in ("prefix", "begins", "after"))
    answers = ask_nodes("tree", {"prefix": prefix, "begins": begins, "after": after, "limit": SEGMENTS})
    if all(answer.error for answer in answers):
        return JsonResponse({"detail": answers[0].error}, status=503)
    level = _shown(prefix, _merged(answers)) | {"begins": begins, "first": not after}
    return render(
        request, "realtime/monitoring/level.html", {"level": level, "subject": request.GET.get("subject", "")}
    )


def _level(prefix: str, path: list[str]) -> dict[str, Any]:
    """Return a level of the tree that begins so that the first segment of ``path`` is on it, with the levels below
    that."""
    start, merged = "", _merged(ask_nodes("tree", {"prefix": prefix, "start": "", "limit": SEGMENTS}))
    if path[0] and merged["more"] and not _has(merged, path[0]):
        there = _merged(ask_nodes("tree", {"prefix": prefix, "start": path[0], "limit": SEGMENTS}))
        # What is nowhere is looked for from the beginning.
        if _has(there, path[0]):
            start, merged = path[0], there
    level = _shown(prefix, merged) | {"first": not start}
    for row in level["rows"]:
        if row["segment"] == path[0] and len(path) > 1 and row["children"]:
            row["level"] = _level(row["name"], path[1:])
    return level


def _has(merged: dict[str, Any], segment: str) -> bool:
    return any(row[0] == segment for row in merged["children"])


def _shown(prefix: str, merged: dict[str, Any]) -> dict[str, Any]:
    """Return a level as its template wants it."""
    rows = [
        {"name": f"{prefix}/{segment}", "segment": segment, "subject": is_subject, "children": children, "seq": seq}
        for segment, is_subject, children, seq in merged["children"]
    ]
    after = rows[-1]["segment"] if rows and merged["more"] else ""
    return {"prefix": prefix, "rows": rows, "total": merged["total"], "after": after}


def _merged(answers: list[NodeAnswer]) -> dict[str, Any]:
    """Merge one level of several nodes: each segment once, the first of them all."""
    found: dict[str, list[Any]] = {}
    for answer in answers:
        for segment, is_subject, children, seq in answer.value.get("children", ()):
            known = found.setdefault(segment, [segment, False, 0, 0])
            known[1:] = known[1] or is_subject, max(known[2], children), max(known[3], seq)
    names = sorted(found)[:SEGMENTS]
    return {
        "children": [found[name] for name in names],
        # Equal nodes have the same subjects; where they differ this is the least that there can be.
        "total": max((answer.value.get("total", 0) for answer in answers), default=0),
        "more": len(found) > len(names) or any(answer.value.get("more") for answer in answers),
    }


def _chosen(request: HttpRequest, subject: str) -> dict[str, Any]:
    """Return what the nodes say of the subject, and a page of its history from the node that is furthest, or a chosen
    one."""
    answers = ask_nodes("subject", {"subject": subject})
    known = [answer for answer in answers if answer.value]
    furthest = max(known, key=lambda answer: _position(answer.value), default=None)
    wanted = request.GET.get("node", "")
    chosen = next((answer for answer in known if str(answer.index) == wanted), furthest)
    before = request.GET.get("before", "")
    sums = {
        name: sum(answer.value.get(name) or 0 for answer in known)
        for name in ("subscribers", "conflated", "behind", "patterns")
    }
    return {
        "known": known,
        "several": len(answers) > 1,
        "away": [answer for answer in answers if answer.error and answer.code != "unknown"],
        "chosen": chosen,
        "facts": chosen.value if chosen else {},
        "option_patterns": _option_patterns(chosen.value) if chosen else [],
        "sums": sums,
        "history": _history(chosen.index, subject, before) if chosen else None,
        "before": before,
        "query": urlencode({"subject": subject} | ({"node": wanted} if wanted else {})),
        "may_publish": not is_system(subject),
    }


def _option_patterns(facts: Mapping[str, Any]) -> list[str]:
    """Return the patterns whose options count for the subject; of a node of a version before these there are none."""
    return sorted(set(facts.get("options", {}).get("patterns", {}).values()))


def _history(node: int, subject: str, before: str) -> NodeAnswer:
    arguments: dict[str, Any] = {"subject": subject, "limit": MESSAGES}
    if before.isdecimal() and len(before) < 16:
        arguments["before"] = int(before)
    answer = ask_node(node, "history", arguments)
    if answer.value.get("more"):
        answer.value["next"] = answer.value["messages"][-1]["seq"]
    return answer


def _position(facts: Mapping[str, Any]) -> tuple[int, int]:
    return int(facts.get("epoch") or 0), int(facts.get("seq") or 0)


def _segments(subject: str) -> list[str]:
    return subject[1:].split("/") if subject.startswith("/") else []


def _wrong(subject: str) -> str:
    """Return why there can be no such subject, in words; empty when there can, and for none."""
    if subject:
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return gettext("This is no subject: %(reason)s.") % {"reason": reason_words(error.reason)}
    return ""
