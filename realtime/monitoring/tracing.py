"""The page Trace: every event of one user, subject or connection for up to a minute, from all nodes, as it happens."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from entitlement.patterns import reason_words
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern
from realtime.monitoring import pages
from realtime.monitoring.actions import node_number
from realtime.monitoring.questions import NodeAnswer, ask_node, ask_nodes, node_names

SECONDS_MAX = 60
SECONDS = (10, 30, 60)
"""Seconds that a trace may run, as the page offers them."""

NAME_CHARS_MAX = 512
"""Nobody and nothing that is traced has a longer one."""

WHAT = {
    "user": gettext_lazy("User"),
    "subject": gettext_lazy("Subject or pattern"),
    "connection": gettext_lazy("Connection"),
}

TITLES = {"user": gettext_lazy("User"), "subject": gettext_lazy("Subject"), "connection": gettext_lazy("Connection")}
"""Words of the page of a running trace for what is traced."""

EVENT_DIGITS_MAX = 15
"""Digits of an event's number at most; whoever reads numbers of any length can be kept busy with one."""

NODES_MAX = 64
"""Nodes of a trace in one address at most; more nodes are not asked."""


class Running(NamedTuple):
    """A trace on one node, and the number of the newest event that the page has."""

    node: int
    trace: str
    after: int

    @classmethod
    def of(cls, text: str) -> Running:
        """Read a running trace from ``NODE:TRACE[:AFTER]``; raise ValueError."""
        node, trace, after = [*text.split(":"), "0"][:3]
        if len(after) > EVENT_DIGITS_MAX:
            raise ValueError("no number of an event")
        return cls(node_number(node), trace, int(after))

    def __str__(self) -> str:
        return f"{self.node}:{self.trace}"


@pages.page
def trace(request: HttpRequest) -> HttpResponse:
    """Show the form, and with ``t`` the trace that runs."""
    what = request.GET.get("what", "user")
    running = [text for text in request.GET.getlist("t")[:NODES_MAX] if text.count(":") == 1]
    context = pages.context(request, gettext("Trace"))
    context["config"] |= {
        "traces": running,
        "nodes": node_names(),
        "what": what,
        "name": request.GET.get("name", ""),
        "data_url": reverse("realtime:monitoring_data_trace"),
        "stop_url": reverse("realtime:monitoring_trace_stop"),
    }
    return render(
        request,
        "realtime/monitoring/trace.html",
        context
        | {
            "what": what if what in WHAT else "user",
            "what_title": TITLES[what if what in WHAT else "user"],
            "choices": WHAT.items(),
            "name": request.GET.get("name", ""),
            "node": request.GET.get("node", "0"),
            "nodes": list(enumerate(node_names())),
            "seconds": SECONDS,
            "running": running,
        },
    )


@pages.action
def begin(request: HttpRequest) -> HttpResponse:
    """Begin a trace of ``what`` and ``name`` on every node, of a connection on its own; on to its page."""
    what, name = request.POST.get("what", ""), request.POST.get("name", "").strip()
    node, seconds = request.POST.get("node", "0"), request.POST.get("seconds", "60")
    query = {"what": what, "name": name} | ({"node": node} if what == "connection" else {})
    page = reverse("realtime:monitoring_trace")
    is_short = seconds.isdecimal() and len(seconds) < 3 and 0 < int(seconds) <= SECONDS_MAX
    if what not in WHAT or not is_short:
        return HttpResponseBadRequest("what to trace, for 1 to 60 seconds?")
    if error := _wrong(what, name):
        messages.error(request, error)
        return redirect(f"{page}?{urlencode(query)}")
    arguments = {what: name, "seconds": int(seconds)}
    try:
        if what == "connection":
            answers = [ask_node(node_number(node), "trace", arguments)]
        else:
            answers = ask_nodes("trace", arguments)
    except IndexError:
        return HttpResponseBadRequest("no such node")
    for answer in answers:
        if answer.error:
            messages.error(request, f"{answer.name}: {answer.error}")
    begun = [Running(answer.index, str(answer.value["trace"]), 0) for answer in answers if answer.value]
    if begun:
        pages.note(request, f"{what} {name}", f"traced for {seconds} s as {_names(begun)}")
    return redirect(f"{page}?{urlencode([*query.items(), *(('t', str(each)) for each in begun)])}")


@pages.data
def events(request: HttpRequest) -> HttpResponse:
    """Answer what has happened since, of each ``t``: events by time, how many could not be kept, what has ended."""
    try:
        asked = {each.node: each for each in map(Running.of, request.GET.getlist("t")[:NODES_MAX])}
        answers = ask_nodes(
            "traced",
            lambda node: {"trace": asked[node].trace, "after": asked[node].after},
            nodes=list(asked),
        )
    except (ValueError, IndexError):
        return JsonResponse({"detail": "no such trace"}, status=400)
    found: list[dict[str, Any]] = []
    for answer in answers:
        found += [event | {"node": answer.index} for event in answer.value.get("events", ())]
    found.sort(key=lambda event: (event["time"], event["node"], event["n"]))
    return JsonResponse(
        {
            "events": found,
            "dropped": {answer.index: answer.value.get("dropped", 0) for answer in answers if answer.value},
            "ended": {answer.index: why for answer in answers if (why := _ended(answer))},
            "seconds_left": max((answer.value.get("seconds_left") or 0 for answer in answers), default=0),
            "errors": [_error(answer) for answer in answers if answer.error and not answer.refused],
        },
        json_dumps_params={"default": _plain},
    )


@pages.action
def stop(request: HttpRequest) -> HttpResponse:
    """End the traces of each ``t`` now."""
    try:
        asked = {each.node: each for each in map(Running.of, request.POST.getlist("t")[:NODES_MAX])}
        answers = ask_nodes("untrace", lambda node: {"trace": asked[node].trace}, nodes=list(asked))
    except (ValueError, IndexError):
        return JsonResponse({"detail": "no such trace"}, status=400)
    if ended := [asked[answer.index] for answer in answers if not answer.error]:
        pages.note(request, f"trace {_names(ended)}", "ended")
    return JsonResponse({"errors": [_error(answer) for answer in answers if answer.error]})


def _wrong(what: str, name: str) -> str:
    """Return why this cannot be traced, in words; empty when it can."""
    if not name:
        return gettext("Whom or what? The name is empty.")
    if len(name) > NAME_CHARS_MAX:
        return gettext("The name is longer than %(most)s characters.") % {"most": NAME_CHARS_MAX}
    if what == "subject":
        try:
            check_pattern(name)
        except InvalidSubject as error:
            words = gettext("This is no subject or pattern: %(reason)s.")
            return words % {"reason": reason_words(error.reason)}
    return ""


def _ended(answer: NodeAnswer) -> str:
    """Return why nothing more will come from this node, in words; empty while something may.

    A node that refuses knows nothing of the trace any more; one that is away may come back.
    """
    return (
        answer.error if answer.refused else "" if answer.value.get("events") else str(answer.value.get("ended") or "")
    )


def _names(traces: list[Running]) -> str:
    """Return the traces as the log has them, by which their beginning and end belong together."""
    return ", ".join(each.trace for each in traces)


def _error(answer: NodeAnswer) -> dict[str, Any]:
    return {"node": answer.index, "name": answer.name, "error": answer.error}


def _plain(thing: Any) -> str:
    """Return bytes within an event as text."""
    return bytes(thing).hex(" ") if isinstance(thing, bytes | bytearray) else str(thing)
