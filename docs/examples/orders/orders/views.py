"""The page of the orders, and what changes them."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_POST

from orders.models import Order
from realtime import publish

STATES = ("new", "packed", "shipped")


def page(request: HttpRequest) -> HttpResponse:
    """All orders; a script keeps them up to date."""
    return render(request, "orders.html", {"orders": Order.objects.order_by("pk")})


@require_POST
@transaction.atomic
def order(request: HttpRequest) -> JsonResponse:
    """A new order. With ``fail`` something goes wrong after all is done, and neither order nor message is there."""
    made = Order.objects.create(item=request.POST.get("item", "book")[:100])
    tell(made)
    if request.POST.get("fail"):
        raise RuntimeError("the payment was refused")
    return JsonResponse({"order": made.pk})


@require_POST
@transaction.atomic
def advance(request: HttpRequest, pk: int) -> JsonResponse:
    """One step further."""
    found = get_object_or_404(Order.objects.select_for_update(), pk=pk)
    found.state = STATES[min(STATES.index(found.state) + 1, len(STATES) - 1)]
    found.save()
    tell(found)
    return JsonResponse({"order": pk, "state": found.state})


def tell(one: Order) -> None:
    """Within the transaction: a row of the outbox, which is committed with the order or not at all."""
    publish(f"/orders/{one.pk}", one.state, {"item": one.item})
