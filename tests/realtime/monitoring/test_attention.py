"""The list of Spark jobs: of several nodes together, what is silent or failed first, and over a real sidecar."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from fastpath.client.control.client import Control
from fastpath.client.publisher.reporting import Reporter
from realtime import publish_many
from realtime.models import OutboxMessage
from realtime.monitoring import attention
from realtime.monitoring.questions import NodeAnswer
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

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
def node(number: int, shared: bool, **rates: float) -> NodeAnswer:
    """What a node says of its subjects: a message each of 10 bytes, for two subscribers."""
    subjects = [
        {"subject": f"/s/{name}", "messages_per_s": rate, "bytes_per_s": 10 * rate, "subscribers": 2}
        | {"deliveries_per_s": 2 * rate}
        for name, rate in rates.items()
    ]
    return NodeAnswer(number, str(number), {"subjects": subjects, "shared": shared})


@pytest.mark.parametrize(
    ("shared", "messages"),
    [
        ((True, True, True), 30.0),
        ((False, False, False), 55.0),
        ((True, True, False), 50.0),
        ((False, True, True), 35.0),
    ],
)
def test_subjects_of_nodes_with_engines_of_their_own_add_up(shared: tuple[bool, ...], messages: float) -> None:
    """Those on one Redis deliver the same messages, and each to clients of its own."""
    rates = [5.0, 30.0, 20.0]
    answers = [node(n, one, a=rate) for n, (one, rate) in enumerate(zip(shared, rates, strict=True))]
    (found,) = attention.busiest_subjects(answers, "messages_per_s")
    assert (found["messages_per_s"], found["bytes_per_s"]) == (messages, 10 * messages)
    assert (found["subscribers"], found["deliveries_per_s"]) == (6, 110.0)


def test_a_subject_that_is_first_only_when_nodes_are_added_up() -> None:
    many = {f"n{number}": 10.0 + number for number in range(attention.ROWS + 5)}
    answers = [node(0, False, wide=8.0, **many), node(1, False, wide=9.0), node(2, False, wide=30.0)]
    assert attention.busiest_subjects(answers, "messages_per_s")[0]["subject"] == "/s/wide"


def sender(name: str, rate: float, **more: object) -> dict[str, Any]:
    return {"user": "u", "kind": "publisher", "name": name, "messages_per_s": rate, "messages": 1, "last_ms": 1} | more


def test_senders_are_added_up_before_any_is_left_out() -> None:
    """The first in the sum is the last on each node, and what is stuck is there."""
    busy = [sender(f"b{number}", 10.0) for number in range(attention.ROWS)]
    stuck = sender("nightly", 0.0, uncommitted=2000, uncommitted_ms=9000)
    nodes = [NodeAnswer(n, str(n), {"senders": [*busy[n::2], sender("wide", 9.0)]}) for n in range(2)]
    nodes[0].value["senders"].append(stuck)
    found = attention.publisher_rows(nodes)["senders"]
    assert len(found) == attention.ROWS
    assert (found[0]["name"], found[0]["messages_per_s"]) == ("wide", 18.0)
    assert found[-1] == stuck


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
def test_what_cannot_be_read_and_the_end_of_the_last_agent_are_alarms(settings: Any) -> None:
    """On the page as in Django's own ``/readyz``, which stays 200."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    def alarms() -> list[str]:
        found: list[str] = client.get("/monitoring/data/attention/").json()["alarms"]
        return found

    with Sidecar(mode="rules", token_secret="s" * 32) as node, Control(node.control) as agent:
        settings.REALTIME = settings.REALTIME | {"CONTROL": [node.control]}
        agent.rights()
        load_rights(node.control, rule(3, "everyone", "a/b", allow=False), rule(1, "everyone", "/**"))
        [alarm] = until(alarms)
        assert "left out, as they cannot be read: rule 3 (no leading slash)" in alarm
        agent.close()
        gone, _ = until(lambda: len(found := alarms()) == 2 and found)
        assert "no agent of Django is connected" in gone
        answer = client.get("/readyz")
        assert (answer.status_code, sorted(answer.json()["warnings"])) == (200, ["agent", "rights"])


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
