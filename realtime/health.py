"""Whether this web server works, and whether clients should be sent to it: ``/healthz`` and ``/readyz``.

docs/operate/logs.md explains it.

Anybody may ask, so nothing is told of addresses and people.
"""

from __future__ import annotations

import logging

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from realtime.nodes import nodes

NODES_SECONDS = 1.0
"""Seconds that the answer waits for nodes that answered before."""

_log = logging.getLogger("realtime.health")


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as views are served: a process manager restarts what does not answer that."""
    del request
    return JsonResponse({"status": "ok"})


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200, or 503 with the reasons by name: ``database``, ``nodes``, or what the nodes themselves say.

    ``warnings`` are what somebody has to put right, by name, though a node serves on: the first node's that has one.
    """
    del request
    found = reasons()
    told: dict[str, str] = {}
    for state in nodes.states(0):
        told = state.warnings | told
    more = {"warnings": told} if told else {}
    if found:
        return JsonResponse({"status": "unavailable", "reasons": found} | more, status=503)
    return JsonResponse({"status": "ok"} | more)


def reasons() -> dict[str, str]:
    """Return what stands against sending somebody here; one node of several that is well is enough."""
    found = {}
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        _log.error("the database does not answer: %s", error)
        found["database"] = "it does not answer"
    states = nodes.states(NODES_SECONDS)
    answering = [state for state in states if not state.error]
    if not answering:
        found["nodes"] = "the sidecar does not answer" if len(states) == 1 else f"none of {len(states)} nodes answers"
    elif all(state.reasons for state in answering):
        found |= answering[0].reasons
    return found
