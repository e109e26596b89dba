"""The pages Clients and one client: search all nodes, open one connection and see all that the sidecar knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext

from entitlement.patterns import reason_words
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern
from realtime.monitoring import pages
from realtime.monitoring.questions import NodeAnswer, ask_node, ask_nodes, node_names

ROWS = 50
"""Clients on a page."""

SUBSCRIPTIONS = 50
"""Subscriptions of a client on a page."""

TEXT_MAX = 512
"""Longer words are not searched for."""


@dataclass(frozen=True)
class Search:
    """The search of the form: part of the user's name, how the address begins, a subject or pattern, only slow ones."""

    user: str = ""
    address: str = ""
    subject: str = ""
    slow: bool = False
    error: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> Search:
        """Read the search from the query; ``error`` says what is wrong with it."""
        given = {name: request.GET.get(name, "").strip()[:TEXT_MAX] for name in ("user", "address", "subject")}
        error = ""
        if given["subject"]:
            try:
                check_pattern(given["subject"])
            except InvalidSubject as fault:
                words = gettext("This is no subject or pattern: %(reason)s.")
                error = words % {"reason": reason_words(fault.reason)}
        return cls(**given, slow=bool(request.GET.get("slow")), error=error)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the control verb ``clients`` for this search."""
        texts = {"user": self.user, "address": self.address, "subject": self.subject}
        return {name: text for name, text in texts.items() if text} | ({"slow": True} if self.slow else {})

    @property
    def query(self) -> dict[str, str]:
        """Query of the page's address for this search."""
        return {name: "on" if text is True else text for name, text in self.arguments.items()}


@dataclass(frozen=True)
class Place:
    """The place where a page of the list begins: at a node, behind one of its clients."""

    node: int = 0
    after: str = ""

    @classmethod
    def of(cls, text: str) -> Place:
        """Read a place from ``NODE:AFTER``; return the beginning where the text is not that."""
        node, colon, after = text.partition(":")
        return cls(int(node), after) if colon and node.isdecimal() and len(node) < 6 else cls()

    def __str__(self) -> str:
        return f"{self.node}:{self.after}"


@pages.page
def clients(request: HttpRequest) -> HttpResponse:
    """Show who is connected, by user, address, subject, slow ones alone; a page at a time, over all nodes."""
    search, place = Search.of(request), Place.of(request.GET.get("after", ""))
    found = {} if search.error else _page(search, place)
    context = pages.context(request, gettext("Clients")) | {
        "search": search,
        "searched": bool(search.arguments),
        **found,
    }
    return render(request, "realtime/monitoring/clients.html", context)


@pages.page
def client(request: HttpRequest, node: int, connection: str) -> HttpResponse:
    """Show one connection: whose it is, what it is subscribed to and why it may, its queue, what it was sent last."""
    arguments = {"connection": connection, "limit": SUBSCRIPTIONS}
    if after := request.GET.get("after", "")[:TEXT_MAX]:
        arguments["after"] = after
    try:
        answer = ask_node(node, "client", arguments)
    except IndexError:
        raise Http404(gettext("There is no such node.")) from None
    context = pages.context(request, gettext("Client")) | {
        "node": node,
        "node_name": answer.name,
        "several": len(node_names()) > 1,
        "connection": connection,
        "client": answer.value,
        "groups": group_names(answer.value.get("groups") or ()),
        "after": after,
        "next": answer.value["subscriptions"][-1]["subject"] if answer.value.get("more") else "",
        "gone": answer.code == "unknown",
        "error": answer.error,
        "explain_url": explain_url(request, str(answer.value.get("user") or "")) if answer.value else "",
    }
    return render(request, "realtime/monitoring/client.html", context, status=404 if context["gone"] else 200)


def group_names(keys: Iterable[str]) -> list[str]:
    """Return the names of Django's groups, by the keys that tokens carry; what is no key of one stands for itself."""
    keys = [str(key) for key in keys]
    names = dict(Group.objects.filter(pk__in=[key for key in keys if key.isdecimal()]).values_list("pk", "name"))
    return [names.get(int(key), key) if key.isdecimal() else key for key in keys]


def explain_url(request: HttpRequest, name: str) -> str:
    """Return the admin's page that says which rule decides about this user, to be continued with the subject; "": none.

    ``name`` is empty for who is not signed in.
    """
    if not (request.user.is_staff and request.user.has_perm("entitlement.view_rule")):
        return ""
    try:
        page = reverse("admin:entitlement_rule_explain")
    except NoReverseMatch:  # a project without the admin
        return ""
    query = {"action": "subscribe"}
    if name:
        model = get_user_model()
        user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if user is None:  # a token of somebody else's
            return ""
        query["user"] = str(user.pk)
    return f"{page}?{urlencode(query)}"


def _page(search: Search, place: Place) -> dict[str, Any]:
    """Return the rows from ``place`` on, node by node, and how many there are in all."""

    def arguments(index: int, limit: int = 1) -> dict[str, Any]:
        # Of the nodes before and behind the page only the number that match is wanted.
        if index != place.node:
            return search.arguments | {"limit": limit}
        return search.arguments | {"limit": ROWS} | ({"after": place.after} if place.after else {})

    if search.slow:
        return _slowest(search)
    answers = ask_nodes("clients", arguments)
    rows: list[dict[str, Any]] = []
    after = ""
    for answer in answers[place.node :]:
        if not answer.value or not answer.value["total"]:
            continue
        if len(rows) == ROWS:
            after = str(Place(answer.index))
            break
        if answer.index != place.node:
            answer = ask_node(answer.index, "clients", arguments(answer.index, ROWS - len(rows)))
        rows += _rows(answer)
        if answer.value.get("more"):
            after = str(Place(answer.index, answer.value["after"]))
            break
    query = search.query
    return _context(answers, rows) | {
        "next": urlencode(query | {"after": after}) if after else "",
        "begin": urlencode(query) if place != Place() else None,
    }


def _slowest(search: Search) -> dict[str, Any]:
    """Return the clients with the longest queues of all nodes; who is slow changes too fast to turn pages."""
    answers = ask_nodes("clients", search.arguments | {"limit": ROWS})
    rows = [row for answer in answers for row in _rows(answer)]
    rows.sort(key=lambda row: row["queue_bytes"], reverse=True)
    return _context(answers, rows[:ROWS])


def _rows(answer: NodeAnswer) -> list[dict[str, Any]]:
    return [row | {"node": answer.index, "node_name": answer.name} for row in answer.value.get("clients", ())]


def _context(answers: list[NodeAnswer], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rows": rows,
        "total": sum(int(answer.value.get("total", 0)) for answer in answers),
        "several": len(answers) > 1,
        "away": [answer for answer in answers if answer.error],
        "workers_away": [answer for answer in answers if answer.value.get("away")],
    }
