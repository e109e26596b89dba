"""The page of the live board."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from realtime.demo.instruments import SENSORS, instruments, market
from realtime.views import page_context


@require_safe
@never_cache
@ensure_csrf_cookie
@login_required
def board(request: HttpRequest) -> HttpResponse:
    """Show the live board; what each row shows is the sidecar's decision, not this page's."""
    context = page_context(request)
    context["config"] |= {"instruments": instruments(), "market": market(), "sensors": SENSORS}
    return render(request, "realtime/board.html", context)
