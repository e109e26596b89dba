"""The debug console, and what all pages are told."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import NoReverseMatch, is_valid_path, reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from fastpath.client.errors import ClientError
from realtime.api import server_list
from realtime.conf import conf
from realtime.nodes.control_sockets import control


@require_safe
@never_cache
@ensure_csrf_cookie
def console(request: HttpRequest) -> HttpResponse:
    """Show the debug console, to staff and users with the permission: it can do what its user's token can do."""
    return _console_page(request, "realtime/console.html")


@require_safe
@never_cache
@ensure_csrf_cookie
def http_console(request: HttpRequest) -> HttpResponse:
    """Show the page that tries what the sidecar answers over HTTP, for the same people."""
    return _console_page(request, "realtime/http.html")


def _console_page(request: HttpRequest, template: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return ask_to_sign_in(request)
    if not (request.user.is_staff or request.user.has_perm("realtime.use_console")):
        raise PermissionDenied(gettext("The console is for staff, and for users with the permission to use it."))
    return render(request, template, page_context(request))


def ask_to_sign_in(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the project's login, which comes back to the page that was asked for.

    A new project has no login at Django's default of ``LOGIN_URL``, but the admin's: that one serves then.
    """
    login = None
    if not settings.is_overridden("LOGIN_URL") and not is_valid_path(settings.LOGIN_URL):
        with suppress(NoReverseMatch):
            login = reverse("admin:login")
    return redirect_to_login(request.get_full_path(), login)


def is_demo() -> bool:
    """Return True if `runrealtime --demo` runs this web server."""
    return os.environ.get("REALTIME_DEMO") == "1"


def page_context(request: HttpRequest) -> dict[str, Any]:
    """Return ``config`` for the page's script, ``sidecar_error`` (empty when a sidecar answers) and
    ``base_template``."""
    return {
        "base_template": conf.base_template,
        "config": {
            "servers": server_list(request),
            "servers_url": reverse("realtime:servers"),
            "token_url": reverse("realtime:token"),
            "schema_url": reverse("realtime:schema"),
            **_csrf(request),
            "user": request.user.get_username(),
            "demo": is_demo(),
        },
        "sidecar_error": sidecar_error(),
    }


def _csrf(request: HttpRequest) -> dict[str, str]:
    """Return the token of this page, the header that takes it, and the cookie with a newer one, if scripts may read
    that."""
    is_hidden = settings.CSRF_USE_SESSIONS or settings.CSRF_COOKIE_HTTPONLY
    return {
        "csrf_token": get_token(request),
        "csrf_header": settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-"),
        "csrf_cookie": "" if is_hidden else settings.CSRF_COOKIE_NAME,
    }


def sidecar_error() -> str:
    """Return why the sidecar cannot be reached, in words for the page; empty when it answers."""
    try:
        control(seconds=1.0).hello()
    except ClientError as error:
        return str(error)
    return ""
