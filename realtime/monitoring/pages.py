"""What the monitoring pages have in common: who may see and operate them, their context, notes in the admin's log."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from entitlement.sessions import leaves_session
from realtime.models import Monitoring
from realtime.stats.access import may_operate, may_view
from realtime.views import ask_to_sign_in, page_context

View = Callable[..., HttpResponse]


def page(view: View) -> View:
    """Make a page for users who may see the monitoring: others are asked to sign in, or told 403."""

    by_itself = leaves_session(view)

    @require_safe
    @never_cache
    @ensure_csrf_cookie
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return ask_to_sign_in(request)
        if not may_view(request.user):
            raise PermissionDenied(_MAY_NOT_VIEW)
        asked = by_itself if request.headers.get("X-Live") else view  # by its script, or by its user
        return asked(request, *args, **kwargs)

    return guarded


def data(view: View) -> View:
    """Make a view of JSON for a page's script: 401 when nobody is signed in, so that the script can say so; 403 without
    the right."""

    @require_safe
    @leaves_session
    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return _refusal(request) or view(request, *args, **kwargs)

    return guarded


def action(view: View) -> View:
    """Make a view that changes something, by POST: for users who may see and operate; for scripts and plain forms
    alike."""

    @require_POST
    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refused = _refusal(request)
        if refused is None and not may_operate(request.user):
            refused = JsonResponse({"detail": _MAY_NOT_OPERATE}, status=403)
        return refused or view(request, *args, **kwargs)

    return guarded


def context(request: HttpRequest, title: str) -> dict[str, Any]:
    """Return what templates/realtime/monitoring/base.html wants: ``config`` for the script, and who may do what."""
    basic = page_context(request)
    operates = may_operate(request.user)
    basic["config"] |= {"may_operate": operates}
    return basic | {"title": title, "may_operate": operates, "log_url": log_url(request)}


def note(request: HttpRequest, thing: str, what: str, *, model: type[Any] = Monitoring) -> None:
    """Write into the admin's log that this user did ``what`` with ``thing``, which lives in no table.

    A project without the admin has no such log.
    """
    if not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE, LogEntry  # noqa: PLC0415 - a model of an app that may be absent

    LogEntry.objects.create(
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(model, for_concrete_model=False),
        object_id=thing,
        object_repr=thing[:200],
        action_flag=CHANGE,
        change_message=what,
    )


def log_url(request: HttpRequest) -> str:
    """Return the address of the admin's log of what was done; empty for users who may not see it."""
    if not (request.user.is_staff and request.user.has_perm("admin.view_logentry")):
        return ""
    try:
        return reverse("admin:admin_logentry_changelist")
    except NoReverseMatch:  # a project without the admin
        return ""


def add_rule_url(request: HttpRequest, pattern: str, reason: str) -> str:
    """Return the admin's form for a rule with which this user may read ``pattern``; empty for users who may not add
    rules."""
    if not (request.user.is_staff and request.user.has_perm("entitlement.add_rule")):
        return ""
    try:
        form = reverse("admin:entitlement_rule_add")
    except NoReverseMatch:  # a project without the admin
        return ""
    filled = {"user": request.user.pk, "pattern": pattern, "action": "subscribe", "effect": "allow", "note": reason}
    return f"{form}?{urlencode(filled)}"


def _refusal(request: HttpRequest) -> HttpResponse | None:
    if not request.user.is_authenticated:
        return JsonResponse({"detail": gettext("you are signed out")}, status=401)
    if not may_view(request.user):
        return JsonResponse({"detail": _MAY_NOT_VIEW}, status=403)
    return None


_MAY_NOT_VIEW = gettext_lazy(
    "The monitoring pages are for users with the permission to see them (realtime.view_monitoring)."
)
_MAY_NOT_OPERATE = gettext_lazy("This is for users with the permission to operate (realtime.operate_monitoring).")
