"""The overview: all nodes at a glance, and the button that drains one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from fastpath.client.control.nodes import label
from fastpath.client.errors import ClientError
from realtime.conf import conf
from realtime.models import Node
from realtime.monitoring import attention, pages
from realtime.nodes import drain as draining
from realtime.nodes import nodes

WINDOWS = {
    "1min": gettext_lazy("1 minute"),
    "5min": gettext_lazy("5 minutes"),
    "15min": gettext_lazy("15 minutes"),
    "1h": gettext_lazy("1 hour"),
    "5h": gettext_lazy("5 hours"),
    "15h": gettext_lazy("15 hours"),
    "1d": gettext_lazy("1 day"),
    "5d": gettext_lazy("5 days"),
    "15d": gettext_lazy("15 days"),
    "1mo": gettext_lazy("1 month"),
    "5mo": gettext_lazy("5 months"),
    "15mo": gettext_lazy("15 months"),
}
"""The windows of the statistics, and what the page calls them."""

CLUSTER = "/__sys__/cluster"
"""Subject of the figures of all nodes, published each second for users who may read them."""


@pages.page
def overview(request: HttpRequest) -> HttpResponse:
    """Live figures, their history, and what needs looking at."""
    context = pages.context(request, gettext("Overview")) | _nodes(request)
    context["windows"] = [{"name": name, "words": words} for name, words in WINDOWS.items()]
    context["config"] |= {
        "cluster": CLUSTER,
        "series_url": reverse("realtime:series"),
        "statistics_url": reverse("realtime:stats"),
        "attention_url": reverse("realtime:monitoring_data_attention"),
        "subjects_url": reverse("realtime:monitoring_subjects"),
        "add_rule_url": pages.add_rule_url(request, CLUSTER, "the monitoring page"),
    }
    return render(request, "realtime/monitoring/overview.html", context)


@require_POST
@permission_required("realtime.drain_node", raise_exception=True)
def drain(request: HttpRequest) -> HttpResponse:
    """Send the clients of ``node`` elsewhere, or with ``undo`` no more; it is noted in the admin's log."""
    address = request.POST.get("node", "")
    if not request.user.is_staff:
        raise PermissionDenied(gettext("Nodes are drained by staff."))
    if address not in conf.controls:
        return HttpResponseBadRequest("no such node")
    try:
        if "undo" in request.POST:
            count = draining.undrain(address)
            done, words = f"no longer draining, {count} clients", gettext("no longer draining, %(count)s clients")
        else:
            count = draining.drain(address, nodes.listed_servers(request))
            done, words = f"draining, {count} clients", gettext("draining, %(count)s clients")
    except ClientError as error:
        messages.error(request, str(error))
        return redirect("realtime:monitoring")
    pages.note(request, label(address), done, model=Node)
    messages.success(request, f"{label(address)}: {words % {'count': count}}")
    return redirect("realtime:monitoring")


def _nodes(request: HttpRequest) -> dict[str, Any]:
    """Return the rows of the table of nodes, and their sum when there are several."""
    states = nodes.states()
    return {
        "nodes": states,
        "sums": attention.sums(states) if len(states) > 1 else None,
        # Of one node alone the clients have nowhere to go.
        "may_drain": len(states) > 1 and request.user.has_perm("realtime.drain_node"),
    }
