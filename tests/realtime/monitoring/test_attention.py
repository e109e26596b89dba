"""The list of Spark jobs: of several nodes together, what is silent or failed first, and over a real sidecar."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from fastpath.client.publisher.reporting import Reporter
from realtime import publish_many
from realtime.models import OutboxMessage
from realtime.monitoring import attention
from realtime.monitoring.questions import NodeAnswer
from tests.support.sidecar import Sidecar

NOW = 1_000_000


def told(job: str, age_ms: int, state: str = "running", **fields: str) -> dict[str, Any]:
    return {
        "job": job,
        "time": NOW - age_ms,
        "user": "spark",
        "restarts": 0,
        "fields": {"state": state, **fields},
    }


def test_of_several_nodes_the_newest_report_counts() -> None:
    """By the age on each node's own clock; a node that does not answer takes nothing away."""
    one = {"now": NOW, "jobs": [told("bars", 9000, batch="1"), told("ticks", 100)]}
    later = told("bars", 200, batch="2")
    other = {"now": NOW + 5_000_000, "jobs": [later | {"time": NOW + 5_000_000 - 200}]}
    found = attention.job_rows(
        [NodeAnswer(0, "a", one), NodeAnswer(1, "b", other), NodeAnswer(2, "c", {}, "no answer")]
    )
    assert [(job["job"], job["age_ms"]) for job in found["jobs"]] == [("bars", 200), ("ticks", 100)]
    assert found["jobs"][0]["fields"]["batch"] == "2"
    assert found["total"] == 2


def test_what_needs_a_look_comes_first() -> None:
    """Silent is who has not said that it ended."""
    late = attention.SILENT_MS + 1
    jobs = [
        told("a", 10),
        told("b", late, "stopped"),
        told("c", late, "failed"),
        told("d", late),
        told("e", late, "done"),
        told("f", attention.SILENT_MS),
        told("g", -5),
    ]
    found = attention.job_rows([NodeAnswer(0, "a", {"now": NOW, "jobs": jobs})])["jobs"]
    assert [job["job"] for job in found] == ["d", "c", "a", "b", "e", "f", "g"]
    assert [job["job"] for job in found if job["silent"]] == ["d"]
    assert found[-1]["age_ms"] == 0


def test_the_list_is_bounded() -> None:
    jobs = [told(f"j{number:03}", 10) for number in range(attention.JOBS_SHOWN + 5)]
    found = attention.job_rows([NodeAnswer(0, "a", {"now": NOW, "jobs": jobs})])
    assert (len(found["jobs"]), found["total"]) == (attention.JOBS_SHOWN, attention.JOBS_SHOWN + 5)


@pytest.mark.django_db
def test_the_page_is_told_of_a_real_job(settings: Any) -> None:
    user = User.objects.create_user("operator")
    user.user_permissions.add(Permission.objects.get(codename="view_monitoring"))
    client = Client()
    client.force_login(user)
    with Sidecar() as sidecar:
        settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
        with Reporter(sidecar.publisher_url) as reporter:
            reporter.report("bars", {"state": "running", "batch": "4"})
        answer = client.get("/monitoring/data/attention/").json()
    [job] = answer["jobs"]["jobs"]
    assert (job["job"], job["fields"]["batch"], job["silent"]) == ("bars", "4", False)
    assert job["time"] <= time.time() * 1000
    assert answer["errors"] == []


@pytest.mark.django_db(transaction=True)
def test_an_outbox_that_does_not_move_is_an_alarm(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": "/nowhere/fastpath.sock", "OUTBOX": True}
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    def alarms() -> list[str]:
        found: list[str] = client.get("/monitoring/data/attention/").json()["alarms"]
        return found

    publish_many([("/orders/1", "a"), ("/orders/2", "b")])
    assert alarms() == []
    OutboxMessage.objects.update(created=timezone.now() - timedelta(seconds=100))
    [alarm] = alarms()
    assert alarm.startswith("2 messages wait in the outbox, the oldest for 100 s.")
    OutboxMessage.objects.update(code="denied")
    [alarm] = alarms()
    assert alarm.startswith("2 messages of the outbox were refused and set aside.")
