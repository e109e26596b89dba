"""What an operator does to clients and subjects: ping, disconnect, publish a test message."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from fastpath.client.errors import ClientError
from realtime.monitoring import pages, subjects
from realtime.monitoring.questions import NodeAnswer, ask_node, ask_nodes
from realtime.publishing.publisher import publish_now

PING_SECONDS = 6.0
"""The sidecar gives up a ping after 5 s, and says so."""

REASON_CHARS_MAX = 100
"""Characters at most of a reason that a client is told (protocol.md 7)."""

PLAIN_REASON = "disconnected by an operator"


@pages.action
def ping(request: HttpRequest) -> HttpResponse:
    """Answer the round trip to a client: JSON ``{"ms"}`` or ``{"detail"}`` for a script, else back to its page."""
    node, connection = node_number(request.POST.get("node")), request.POST.get("connection", "")
    try:
        known = ask_node(node, "client", {"connection": connection, "limit": 1})
        answer = ask_node(node, "ping", {"connection": connection}, PING_SECONDS)
    except IndexError:
        return HttpResponseBadRequest("no such node")
    if known.value:
        outcome = answer.error or f"{float(answer.value.get('ms', 0)):.1f} ms"
        pages.note(request, _whose(connection, known), f"pinged: {outcome}")
    if request.accepts("text/html"):
        _tell(request, answer, gettext("It answered after %(ms).1f ms.") % {"ms": float(answer.value.get("ms", 0))})
        return redirect("realtime:monitoring_client", node=node, connection=connection)
    if answer.error:
        return JsonResponse({"detail": answer.error}, status=409 if answer.refused else 503)
    return JsonResponse({"ms": answer.value["ms"]})


@pages.action
def disconnect(request: HttpRequest) -> HttpResponse:
    """Close a connection (``node``, ``connection``), or all of a ``user`` on every node, with a ``reason``."""
    reason = request.POST.get("reason", "").strip()[:REASON_CHARS_MAX] or PLAIN_REASON
    user, connection = request.POST.get("user", ""), request.POST.get("connection", "")
    if request.POST.get("whom") == "user":
        if not user:
            return HttpResponseBadRequest("no user")
        answers = ask_nodes("disconnect", {"user": user, "reason": reason})
        # What the log keeps is the same for all who read it, what the page says is not.
        thing, named = f"user {user}", gettext("user %(name)s") % {"name": user}
        elsewhere = f"{reverse('realtime:monitoring_clients')}?{urlencode({'user': user})}"
    else:
        node = node_number(request.POST.get("node"))
        try:
            # Whose it is, is for the node to say, not for the form.
            known = ask_node(node, "client", {"connection": connection, "limit": 1})
            answers = [ask_node(node, "disconnect", {"connection": connection, "reason": reason})]
        except IndexError:
            return HttpResponseBadRequest("no such node")
        thing = _whose(connection, known)
        if known.value.get("user"):
            named = gettext("client %(id)s of %(user)s") % {"id": connection, "user": known.value["user"]}
        else:
            named = gettext("client %(id)s of nobody signed in") % {"id": connection}
        elsewhere = reverse("realtime:monitoring_clients")
    done = sum(int(answer.value.get("clients", 0)) for answer in answers)
    if any(not answer.error for answer in answers):
        number = f"{done} connection{'' if done == 1 else 's'}"
        pages.note(request, thing, f"disconnected {number}: {reason}")
        words = ngettext("%(thing)s: %(count)s connection closed.", "%(thing)s: %(count)s connections closed.", done)
        messages.success(request, words % {"thing": named, "count": done})
    for answer in answers:
        if answer.error:
            messages.error(request, f"{answer.name}: {answer.error}")
    return redirect(elsewhere)


@pages.action
def publish_test(request: HttpRequest) -> HttpResponse:
    """Publish a message by hand, past the rules as all that Django publishes; back to the subject's page."""
    subject = request.POST.get("subject", "").strip()
    retained, qos = "retained" in request.POST, request.POST.get("qos", "guaranteed")
    try:
        content = _content(request.POST.get("content", ""), binary="binary" in request.POST)
        fields = _fields(request.POST.get("fields", ""))
        if not content and not fields:
            # One click too many would send it to every subscriber.
            raise ValueError(gettext("it is empty, without content and without fields"))
        position = publish_now(subject, content, fields, retained=retained, qos=qos)
    except (ClientError, ValueError) as error:
        # What was typed stays in the form.
        return subjects.show(request, subject, failed=gettext("Not published: %(error)s") % {"error": error})
    stored = f" as {position.epoch}/{position.seq}" if position.seq else ""
    what = "" if retained else ", not retained"
    pages.note(request, subject, f"published a test message{stored}{what}")
    if position.seq:
        words = gettext("Published to %(subject)s as %(position)s%(what)s.")
    else:
        words = gettext("Published to %(subject)s%(what)s.")
    said = {"subject": subject, "position": f"{position.epoch}/{position.seq}"}
    messages.success(request, words % (said | {"what": "" if retained else gettext(", not retained")}))
    return redirect(f"{reverse('realtime:monitoring_subjects')}?{urlencode({'subject': subject})}")


def _content(text: str, *, binary: bool) -> str | bytes:
    """Return what the form has as content; raise ValueError in words."""
    # A form's lines end with CR LF, whatever was typed.
    text = text.replace("\r\n", "\n")
    if not binary:
        return text
    try:
        return base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        raise ValueError(gettext("the content is no base64")) from None


def _fields(text: str) -> dict[str, str]:
    """Return the fields that the form has as ``name=value``, one a line; raise ValueError in words."""
    fields = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(gettext("a field is name=value, one a line, not %(line)r") % {"line": line})
        fields[name.strip()] = value.strip()
    return fields


def node_number(text: Any) -> int:
    """Return the number of a node, from a form; -1, which no node has, for what is none."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 6 else -1


def _whose(connection: str, known: NodeAnswer) -> str:
    """Return a connection as the log names it, from its node's answer to ``client``."""
    return f"client {connection} of {known.value.get('user') or 'nobody signed in'}"


def _tell(request: HttpRequest, answer: NodeAnswer, words: str) -> None:
    if answer.error:
        messages.error(request, answer.error)
    else:
        messages.success(request, words)
