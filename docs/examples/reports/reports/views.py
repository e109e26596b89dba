"""The page, and the button on it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from realtime import publish
from reports.tasks import make


def page(request: HttpRequest) -> HttpResponse:
    """Show the reports, as they come."""
    return render(request, "reports.html")


@require_POST
def order(request: HttpRequest) -> HttpResponse:
    """Have a report made by a worker; who looks at the page sees how far it is."""
    name = request.POST["name"]
    publish(f"/reports/{name}", "waits for a worker")
    make.delay(name)
    return redirect("page")
