"""The pages: the live board, the monitoring page and the debug console."""

from __future__ import annotations

import os
from typing import Any

from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.auth.views import LoginView, redirect_to_login
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from fastpath.client.errors import ClientError
from fastpath.client.nodes import label
from realtime import draining, nodes
from realtime.api import server_list
from realtime.conf import conf
from realtime.control import control
from realtime.instruments import instruments
from realtime.models import Node

_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b1f33"/>'
    '<path d="M2 11l3-4 3 2 5-6" fill="none" stroke="#37d67a" stroke-width="2"/></svg>'
)


@require_safe
@never_cache
@ensure_csrf_cookie
@login_required
def board(request: HttpRequest) -> HttpResponse:
    """The live board; what each row shows is the sidecar's decision, not this page's."""
    return render(request, "realtime/board.html", page_context(request))


@require_safe
@never_cache
@ensure_csrf_cookie
def monitoring(request: HttpRequest) -> HttpResponse:
    """Live figures of the sidecar, for staff."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not request.user.is_staff:
        raise PermissionDenied("The monitoring page is for staff.")
    return render(request, "realtime/monitoring.html", page_context(request) | _nodes_context(request))


@require_safe
@never_cache
@ensure_csrf_cookie
def console(request: HttpRequest) -> HttpResponse:
    """The debug console, for staff and who has the permission: it can do what its user's token can do, and no more."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not (request.user.is_staff or request.user.has_perm("realtime.use_console")):
        raise PermissionDenied("The console is for staff, and for users with the permission to use it.")
    return render(request, "realtime/console.html", page_context(request))


@require_POST
@permission_required("realtime.drain_node", raise_exception=True)
def drain(request: HttpRequest) -> HttpResponse:
    """Send the clients of ``node`` elsewhere, or with ``undo`` no more; it is noted in the admin's log."""
    address = request.POST.get("node", "")
    if not request.user.is_staff:
        raise PermissionDenied("Nodes are drained by staff.")
    if address not in conf.controls:
        return HttpResponseBadRequest("no such node")
    undo = "undo" in request.POST
    try:
        if undo:
            clients = draining.undrain(address)
            done = f"no longer draining, {clients} clients"
        else:
            clients = draining.drain(address, conf.servers(request.get_host(), request.is_secure()))
            done = f"draining, {clients} clients"
    except ClientError as error:
        messages.error(request, str(error))
        return redirect("monitoring")
    LogEntry.objects.create(
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(Node, for_concrete_model=False),
        object_id=label(address),
        object_repr=label(address),
        action_flag=CHANGE,
        change_message=done,
    )
    messages.success(request, f"{label(address)}: {done}")
    return redirect("monitoring")


@require_safe
@cache_control(max_age=86400, public=True)
def favicon(_: HttpRequest) -> HttpResponse:
    """Asked for by browsers without being told to."""
    return HttpResponse(_FAVICON, content_type="image/svg+xml")


class SignIn(LoginView):
    """The login page; in the demonstration it names the users."""

    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """The form, and whether this is the demonstration."""
        return super().get_context_data(**kwargs) | {"demo": is_demo()}


def is_demo() -> bool:
    """Whether `runrealtime --demo` runs this web server."""
    return os.environ.get("REALTIME_DEMO") == "1"


def _nodes_context(request: HttpRequest) -> dict[str, Any]:
    """The rows of the table of nodes, and their sum when there are several."""
    states = nodes.states()
    sums = {name: sum(state.figures.get(name, 0) for state in states) for name in nodes.SUMMED}
    return {
        "nodes": states,
        "sums": sums if len(states) > 1 else None,
        # Of one node alone the clients have nowhere to go.
        "may_drain": len(states) > 1 and request.user.has_perm("realtime.drain_node"),
    }


def page_context(request: HttpRequest) -> dict[str, Any]:
    """``config`` for the page's script and ``sidecar_error`` (empty when a sidecar answers)."""
    return {
        "config": {
            "servers": server_list(request),
            "servers_url": reverse("realtime_servers"),
            "token_url": reverse("realtime_token"),
            "user": request.user.get_username(),
            "instruments": instruments(),
            "demo": is_demo(),
        },
        "sidecar_error": sidecar_error(),
    }


def sidecar_error() -> str:
    """Why the sidecar cannot be reached, in words for the page; empty when it answers."""
    try:
        control(seconds=1.0).hello()
    except ClientError as error:
        return str(error)
    return ""
