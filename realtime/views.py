"""The pages but the monitoring ones: the live board, the debug console, the login."""

from __future__ import annotations

import os
from typing import Any

from django.contrib.auth.decorators import login_not_required, login_required
from django.contrib.auth.views import LoginView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from fastpath.client.errors import ClientError
from realtime.api import server_list
from realtime.demo.instruments import instruments, market
from realtime.nodes.control_sockets import control

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
    context = page_context(request)
    context["config"]["market"] = market()
    return render(request, "realtime/board.html", context)


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


@login_not_required
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
