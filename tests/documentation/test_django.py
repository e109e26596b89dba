"""What the pages for Django's developers print: publications to a sidecar, signals, rules."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from celery import Celery
from celery.app import app_or_default
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.test import override_settings
from django.utils import timezone

from entitlement.models import Rule, RuleChange
from entitlement.permissions.asking import permissions_of
from entitlement.tokens import TokenRefused, bearer, mint
from fastpath.client import ClientError
from realtime import publish, publish_failed
from realtime.nodes.control_sockets import control
from tests.support.documentation.running import Run
from tests.support.edge.wire import WireClient
from tests.support.guide import one
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

PUBLISHING = "docs/develop/publishing.md"


@pytest.fixture
def published(sidecar: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """Where publications of this process go."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    with control():
        yield sidecar


@pytest.fixture
def disconnected() -> Iterator[None]:
    """What a block has connected to the signal is none of other tests' afterwards."""
    before = [*publish_failed.receivers]
    yield
    publish_failed.receivers[:] = before
    publish_failed.sender_receivers_cache.clear()


def snapshot(subject: str) -> dict[str, Any]:
    """What a subject has."""
    found: dict[str, Any] = control().snapshot(subject).get("message") or {}
    return found


def test_publishing_and_removing(published: Sidecar) -> None:
    order = SimpleNamespace(total=Decimal("19.20"))
    Run(one(PUBLISHING, "python", "publish_many(["), {"order": order}).now()
    assert (snapshot("/orders/42")["content"], snapshot("/orders/42")["fields"]["carrier"]) == ("packed", "DHL")
    assert (snapshot("/orders/43")["content"], snapshot("/orders/43")["fields"]) == ("paid", {"by": "card"})
    Run(one(PUBLISHING, "python", "import remove"), {}).now()
    assert snapshot("/orders/42") == {}


def test_sessions_are_cleared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement deletes more than a thousand; whoever is signed in stays so."""
    moments = {f"ended{number}": timedelta(hours=-1) for number in range(2100)} | {"lives": timedelta(hours=1)}
    Session.objects.bulk_create(
        Session(session_key=key, session_data="", expire_date=timezone.now() + span) for key, span in moments.items()
    )
    left: list[int] = []
    monkeypatch.setattr("time.sleep", lambda seconds: left.append(Session.objects.count()))
    Run(one("docs/operate/databases.md", "python", "expire_date__lt"), {}).now()
    assert left == [1101, 101, 1]
    assert Session.objects.get().session_key == "lives"


def test_publishing_to_one_user(published: Sidecar) -> None:
    order = SimpleNamespace(customer=User.objects.create_user("ann"))
    with WireClient(published) as client:
        client.ask("connect", "connected")
        client.subscribe("/user/ann/basket/count")
        run = Run(one(PUBLISHING, "python", "user_subject"), {"order": order}).now()
        assert client.texts(1) == ["3"]
    assert snapshot(run.names["user_subject"](order.customer))["content"] == '{"state":"shipped"}'


def test_publishing_in_asynchronous_code(published: Sidecar) -> None:
    run = Run(one(PUBLISHING, "python", "apublish("), {}).now()
    asyncio.run(run.names["ship"](None))
    assert snapshot("/orders/42")["content"] == '{"state":"shipped"}'


@pytest.mark.usefixtures("disconnected")
def test_a_receiver_of_what_failed(sidecar: Sidecar, settings: Any) -> None:
    """The sidecar is not there."""
    lost: list[dict[str, str]] = []
    table = SimpleNamespace(objects=SimpleNamespace(create=lambda **row: lost.append(row)))
    settings.REALTIME = settings.REALTIME | {"CONTROL": f"{sidecar.control}.gone", "PUBLISH_SECONDS": 1}
    receiver = Run(one(PUBLISHING, "python", "def remember"), {"Lost": table}).now()
    with pytest.raises(ClientError):
        publish("/orders/42", "shipped")
    assert [row["subject"] for row in lost] == ["/orders/42"]
    assert receiver.names["remember"]


def test_tasks_and_commands(published: Sidecar, settings: Any) -> None:
    """The task runs in this process as soon as it is sent, which is after the commit, and after what is published."""
    before = app_or_default()
    shop = Celery("shop", task_cls="celery.contrib.django.task:DjangoTask")  # as Celery chooses in a project of Django
    shop.conf.task_always_eager = True
    try:
        pay = Run(one(PUBLISHING, "python", "shared_task"), {}).now().names["pay"]
        with WireClient(published) as client:
            client.ask("connect", "connected")
            client.subscribe("/orders/7")
            with transaction.atomic():
                pay(SimpleNamespace(pk=7, pay=lambda: None))
                assert client.quiet()
            assert client.texts(2) == ["paid", "shipped"]
    finally:
        before.set_current()


class Order(SimpleNamespace):
    """A reader's own; a signal's sender may be any class."""

    objects: Any


def test_from_polling(published: Sidecar) -> None:
    """What the view said is published when it changes, and once for what is there already."""
    page = "docs/develop/from-polling.md"
    order, other = Order(pk=42, state="shipped", parcels=2), Order(pk=43, state="paid", parcels=1)
    Order.objects = SimpleNamespace(all=lambda: [order, other], get=lambda pk: {42: order, 43: other}[pk])
    before = Run(one(page, "python", "JsonResponse"), {"Order": Order}).now().names
    given = {"Order": Order, "state_of": before["state_of"]}
    receivers = Run(one(page, "python", "post_save"), given).now().names
    try:
        post_save.send(Order, instance=order, using="default")
        assert snapshot("/orders/42")["content"] == before["state"](None, 42).content.decode().replace(" ", "")
        post_delete.send(Order, instance=order, using="default")
        assert snapshot("/orders/42") == {}
    finally:
        post_save.disconnect(receivers["saved"], sender=Order)
        post_delete.disconnect(receivers["deleted"], sender=Order)
    Run(one(page, "python", "publish_many"), given).now()
    assert snapshot("/orders/43")["content"] == '{"state":"paid","parcels":1}'


def test_from_others(published: Sidecar) -> None:
    """docs/develop/from-centrifugo.md and from-pusher.md: the call that takes the place of theirs."""
    Run(one("docs/develop/from-centrifugo.md", "python", "publish("), {}).now()
    assert snapshot("/orders/42")["content"] == '{"state":"shipped"}'
    Run(one("docs/develop/from-pusher.md", "python", "publish("), {}).now()
    assert snapshot("/orders/42")["content"] == '{"event":"shipped","carrier":"DHL"}'


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}})
def test_from_channels(published: Sidecar) -> None:
    """docs/develop/from-channels.md: the consumer of before tells what the subject tells after."""
    page = "docs/develop/from-channels.md"
    order = Order(pk=42)
    consumer = Run(one(page, "python", "AsyncJsonWebsocketConsumer"), {}).now().names["OrderConsumer"]
    before = Run(one(page, "python", "group_send"), {}).now().names["shipped"]

    async def told() -> Any:
        reader = WebsocketCommunicator(consumer.as_asgi(), "/orders/42/")
        reader.scope |= {"user": SimpleNamespace(is_staff=True), "url_route": {"kwargs": {"pk": 42}}}
        connected, _ = await reader.connect()
        assert connected
        await sync_to_async(before)(order)
        found = await reader.receive_json_from(PATIENCE_SECONDS)
        await reader.disconnect()
        return found

    assert async_to_sync(told)() == {"state": "shipped"}
    Run(one(page, "python", "realtime import publish"), {}).now().names["shipped"](order)
    assert snapshot("/orders/42")["content"] == '{"state":"shipped"}'


def test_who_has_changed_rules() -> None:
    """docs/develop/entitlement.md: what a page of one's own does is noted as of whoever has asked for it."""
    ann = User.objects.create_user("ann")
    Rule.objects.create(user=ann, pattern="/a/*", note="trial")
    Run(
        one("docs/develop/entitlement.md", "python", "acting("), {"Rule": Rule, "request": SimpleNamespace(user=ann)}
    ).now()
    assert not Rule.objects.get().enabled
    assert str(ann) in str(RuleChange.objects.latest("pk").__dict__.values())


class Orders:
    """The orders of a user, as the manager of a shop's model finds them."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def filter(self, is_open: bool) -> list[Any]:
        """Those that are open, or are not."""
        return [row for row in self._rows if row.is_open == is_open]


def test_rights_by_a_shops_own_code(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/develop/entitlement.md: the function, its setting, and the end of what it has said before."""
    page = "docs/develop/entitlement.md"
    ann, bob = User.objects.create_user("ann"), User.objects.create_user("bob")
    order = SimpleNamespace(pk=42, customer=ann, is_open=True, save=lambda: None)
    monkeypatch.setattr(User, "orders", property(lambda user: Orders([order] if user == ann else [])), raising=False)
    for name in ("shop", "shop.live"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vars(sys.modules["shop.live"]).update(Run(one(page, "python", "# shop/live.py"), {}).now().names)
    settings.REALTIME = (
        settings.REALTIME | Run(one(page, "python", "shop.live.permissions"), {}).now().names["REALTIME"]
    )
    assert permissions_of(ann) == {"sub": ["/orders/42/**"], "pub": ["/orders/42/messages"]}
    assert permissions_of(bob) == {}
    before = mint(ann)[0]
    Run(one(page, "python", "# shop/views.py"), {}).now().names["close"](order)
    assert permissions_of(ann) == {}
    with pytest.raises(TokenRefused):
        bearer(before)


def test_the_rule_of_the_monitoring_page() -> None:
    Group.objects.create(name="operators")
    Run(one("docs/operate/monitoring.md", "python", "/__sys__/cluster"), {}).now()
    assert Rule.objects.get().pattern == "/__sys__/cluster"
