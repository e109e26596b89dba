"""Django's /metrics: the nodes' texts as one, and the statistics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone
from rest_framework.request import Request

from entitlement.tokens import mint
from realtime import publish_many
from realtime.export import exposition
from realtime.export.exposition import merged
from realtime.jmx.beans import beans, quote
from realtime.models import OutboxMessage
from realtime.outside.access import OWN
from realtime.publishing.outbox.store import Fates, OutboxStore
from realtime.stats.access import MonitoringView
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

ONE = """# HELP a_total Counts.
# TYPE a_total counter
a_total 1
# HELP h Takes.
# TYPE h histogram
h_bucket{le="0.1"} 1
h_bucket{le="+Inf"} 2
h_sum 0.5
h_count 2
"""
OTHER = """# HELP b Only here, with a # in it.
# TYPE b gauge
b{x="{y} \\"z\\""} 3
# HELP a_total Counts, in other words.
# TYPE a_total counter
a_total 7
"""


def test_each_metric_once_and_each_sample_with_its_node() -> None:
    assert "\n".join(merged({"10.0.0.1:8802": ONE, 'b"\\': OTHER, "away": ""})) == (
        """# HELP a_total Counts.
# TYPE a_total counter
a_total{node="10.0.0.1:8802"} 1
a_total{node="b\\"\\\\"} 7
# HELP h Takes.
# TYPE h histogram
h_bucket{node="10.0.0.1:8802",le="0.1"} 1
h_bucket{node="10.0.0.1:8802",le="+Inf"} 2
h_sum{node="10.0.0.1:8802"} 0.5
h_count{node="10.0.0.1:8802"} 2
# HELP b Only here, with a # in it.
# TYPE b gauge
b{node="b\\"\\\\",x="{y} \\"z\\""} 3"""
    )


@pytest.mark.django_db(transaction=True)
def test_the_nodes_and_the_statistics_for_who_may_see_them(carrier: Sidecar, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": [carrier.control, "/nowhere/fastpath.sock"]}
    root = User.objects.create_superuser("root")
    token, _ = mint(root)
    assert Client().get("/metrics").status_code == 401
    answer = Client().get(
        "/metrics",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/openmetrics-text;version=1.0.0"},
    )
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = answer.content.decode().splitlines()
    assert f'fastpath_up{{node="{carrier.control}"}} 1' in lines
    assert 'fastpath_up{node="/nowhere/fastpath.sock"} 0' in lines
    assert f'fastpath_connections{{node="{carrier.control}"}} 0' in lines
    assert "# TYPE fastpath_statistics gauge" in lines
    assert not [line for line in lines if line.startswith("fastpath_statistics{")], "nothing has been sampled"
    found = until(lambda: (now := beans())[f"fastpath:type=Node,name={quote(carrier.control)}"]["up"] and now)
    assert found[f"fastpath:type=Node,name={quote(carrier.control)}"]["connections"] == 0
    assert found[f"fastpath:type=Worker,node={quote(carrier.control)},worker=0"]["connections"] == 0
    away = found['fastpath:type=Node,name="/nowhere/fastpath.sock"']
    assert (away["up"], bool(away["error"])) == (0, True)
    assert found["fastpath:type=Statistics,indicator=bytes_in_per_s,window=15mo"] == dict.fromkeys(
        ("maximum", "average", "deviation")
    )


class Answering(MonitoringView):
    """A view for users, served on that address."""

    def get(self, request: Request) -> HttpResponse:
        """Always 200."""
        return HttpResponse()


@pytest.mark.parametrize(
    ("password", "authorization", "status"),
    [
        ("", "", 200),
        ("", "Bearer x", 200),
        ("grün", "", 401),
        ("grün", "Basic Z3LDvG4=", 401),  # no colon
        ("grün", "Basic eDpncsO8", 401),
        ("grün", "Basic eDpncsO8bg==", 200),
        ("grün", "Bearer gr\xfcn", 401),  # as latin-1
        ("grün", "Bearer grün".encode().decode("latin-1"), 200),
        ("grün", "Digest grün", 401),
        ("grün", "Basic %%%", 401),
    ],
)
def test_the_password_of_the_statistics_own_address(
    settings: Any, password: str, authorization: str, status: int
) -> None:
    settings.REALTIME = settings.REALTIME | {"STATS_PASSWORD": password}
    request = RequestFactory().get("/", headers={"Authorization": authorization} if authorization else {})
    answer = Answering.as_view(**OWN)(request)
    assert answer.status_code == status
    if status == 401:
        assert answer["WWW-Authenticate"] == 'Basic realm="statistics"'


@pytest.mark.django_db(transaction=True)
def test_the_outbox_where_there_is_one(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": "/nowhere/fastpath.sock"}
    assert not [line for line in exposition.lines() if "outbox" in line]
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True}
    publish_many([("/orders/1", "a"), ("/orders/1", "b"), ("/orders/1", "c")])
    OutboxMessage.objects.filter(pk=OutboxMessage.objects.latest("pk").pk).update(code="denied")
    OutboxMessage.objects.update(created=timezone.now() - timedelta(hours=1))
    store = OutboxStore("default")
    assert store.lead()
    store.settle(Fates([store.take()[0].id], {}, []))
    store.retry()
    samples = dict(line.rsplit(" ", 1) for line in exposition.lines() if line.startswith("fastpath_outbox"))
    assert float(samples.pop("fastpath_outbox_oldest_seconds")) >= 3600
    assert samples == {
        'fastpath_outbox_rows{state="waiting"}': "1",
        'fastpath_outbox_rows{state="set_aside"}': "1",
        "fastpath_outbox_sent_total": "1",
        "fastpath_outbox_refused_total": "0",
        "fastpath_outbox_retries_total": "1",
    }
