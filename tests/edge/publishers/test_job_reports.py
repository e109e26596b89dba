"""How far jobs are: reports on the publisher port, who may make and read them, what is remembered, and hostile ones."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ConnectionRejected, PublishTimeout, RefusedMessage
from fastpath.client.publisher.reporting import Reporter
from fastpath.edge.publishers import job_reports
from tests.support.edge.rules import rule, ruled
from tests.support.edge.wire import WireClient, WirePublisher, undisturbed
from tests.support.hook import Answering, no, yes
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until


def listed(sidecar: Sidecar) -> dict[str, dict[str, Any]]:
    """What the control socket says of the jobs, by their names."""
    with Control(sidecar.control) as control:
        return {job["job"]: job for job in control.jobs()["jobs"]}


def ask(publisher: WirePublisher, *report: Any) -> list[Any]:
    publisher.packet("report", *report)
    return publisher.next()


def test_a_report_is_a_message_and_stays_as_the_snapshot(shared: Sidecar) -> None:
    """Who subscribes sees each report, who comes later the last one; nobody has numbered it."""
    with WireClient(shared) as client, WirePublisher(shared) as publisher:
        client.subscribe("/__sys__/jobs/bars")
        assert ask(publisher, 7, "bars", {"state": "running", "batch": "1"}) == ["reported", 7]
        assert ask(publisher, 8, "bars", {"state": "running", "batch": "2"}) == ["reported", 8]
        first, second = client.message(), client.message()
        assert first[3:5] == ["running", {"state": "running", "batch": "1", "restarts": "0"}]
        assert second[4]["batch"] == "2"
        with WireClient(shared) as late:
            [result] = late.subscribe("/__sys__/jobs/bars")
            assert result["seq"] == 0
            assert late.message()[4]["batch"] == "2"


def test_what_is_not_reported_any_more_is_empty(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher:
        ask(publisher, 1, "empty", {"state": "failed", "error": "why"})
        ask(publisher, 2, "empty", {"state": "running"})
    assert listed(shared)["empty"]["fields"] == {"state": "running", "error": ""}
    with WireClient(shared) as client:
        client.subscribe("/__sys__/jobs/empty")
        assert client.message()[4] == {"state": "running", "error": "", "restarts": "0"}


def test_restarts_are_counted_by_the_runs_name(shared: Sidecar) -> None:
    with WireClient(shared) as client, WirePublisher(shared) as publisher:
        client.subscribe("/__sys__/jobs/again")
        for run in ("a", "a", "b", "b", "c"):
            ask(publisher, 1, "again", {"run": run})
        assert [client.message()[4]["restarts"] for _ in range(5)] == ["0", "0", "1", "1", "2"]
    assert listed(shared)["again"]["restarts"] == 2


def test_the_list_has_who_and_when_the_last_one_first() -> None:
    token = mint_jwt("spark", publish=["/__sys__/jobs/**"])
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar, WirePublisher(sidecar, token) as publisher:
        for job in ("one", "two", "one"):
            ask(publisher, 1, job, {"state": "running"})
        with Control(sidecar.control) as control:
            answer = control.jobs()
        assert [(job["job"], job["user"]) for job in answer["jobs"]] == [("one", "spark"), ("two", "spark")]
        assert answer["total"] == 2
        assert answer["jobs"][1]["time"] <= answer["jobs"][0]["time"] <= answer["now"]


def test_only_who_may_publish_there_may_report() -> None:
    """By a rule; the right is looked at with each report. An ordinary batch may not publish there, whoever sends it."""
    with ruled(rule(1, "/__sys__/jobs/bars", action="publish", who="user:spark")) as rules:
        spark = WirePublisher(rules.sidecar, mint("spark", generation=rules.generation))
        assert ask(spark, 1, "bars", {}) == ["reported", 1]
        assert ask(spark, 2, "ticks", {}) == ["failed", 2, "denied", "no rule allows it"]
        [result] = spark.publish(["/__sys__/jobs/bars", "mine"])
        assert result[0] == "denied"
        assert rules.control.check("/__sys__/jobs/bars", "publish", mint("spark"))["allowed"]
        assert not rules.control.check("/__sys__/stats", "publish", mint("spark", superuser=True))["allowed"]
        rules.change(removed=[1])
        assert ask(spark, 3, "bars", {}) == ["failed", 3, "denied", "no rule allows it"]
        spark.sock.close()


def test_a_hook_is_asked_about_it() -> None:
    """The report waits for the answer, as a batch does."""
    with Sidecar(mode="custom", hook_seconds=5) as sidecar, Answering(sidecar.control, None) as hook:
        hook.rule = lambda question: (no if "/__sys__/jobs/b" in question.get("subjects", ()) else yes)(question)
        with WirePublisher(sidecar, "somebody") as publisher:
            assert ask(publisher, 1, "a", {}) == ["reported", 1]
            assert ask(publisher, 2, "b", {})[:3] == ["failed", 2, "denied"]


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (("", {}), "invalid"),
        (("a/b", {}), "invalid"),
        (("**", {}), "invalid"),
        (("x" * 129, {}), "invalid"),
        (("long", {"text": "x" * 9000}), "too_large"),
        (("many", {str(number): "" for number in range(65)}), "too_large"),
    ],
    ids=["no name", "two segments", "a wildcard", "long name", "long text", "many fields"],
)
def test_what_is_refused_ends_nothing(shared: Sidecar, report: tuple[Any, ...], code: str) -> None:
    with undisturbed(shared), WirePublisher(shared) as publisher:
        assert ask(publisher, 1, *report)[:3] == ["failed", 1, code]
        assert ask(publisher, 2, "good", {"state": "running"}) == ["reported", 2]
    assert report[0] not in listed(shared)


@pytest.mark.parametrize(
    "report",
    [(), ("bars",), ("bars", []), ("bars", {"a": 1}), ("bars", {1: "a"}), (b"bars", {}), ("bars", {"": "a"})],
    ids=["nothing", "no fields", "a list", "a number", "a number as name", "binary", "an empty name"],
)
def test_a_frame_of_another_shape_ends_the_publisher(shared: Sidecar, report: tuple[Any, ...]) -> None:
    with undisturbed(shared), WirePublisher(shared) as publisher:
        publisher.packet("report", 1, *report)
        assert publisher.closed()[0] == 4500


def test_before_hello_nothing_is_reported(shared: Sidecar) -> None:
    with WirePublisher(shared, hello=False) as publisher:
        publisher.packet("report", 1, "bars", {})
        assert publisher.closed()[0] == 4500


def test_names_of_fields_are_bounded_over_all_reports_of_a_job(shared: Sidecar) -> None:
    """A snapshot keeps each name that ever came."""
    with WirePublisher(shared) as publisher:
        half = job_reports.NAMES_MAX // 2
        for start in (0, half):
            assert ask(publisher, 1, "wide", {f"f{start + number}": "1" for number in range(half)})[0] == "reported"
        assert ask(publisher, 2, "wide", {"one more": "1"})[:3] == ["failed", 2, "too_large"]
        assert ask(publisher, 3, "wide", {"f0": "2"})[0] == "reported"


def test_jobs_are_bounded_and_the_others_go_on() -> None:
    """What is remembered is not pushed out by a flood of names."""
    with Sidecar() as sidecar, WirePublisher(sidecar) as publisher:
        for number in range(job_reports.JOBS_MAX):
            publisher.packet("report", number, f"j{number}", {"state": "running"})
        assert all(publisher.next()[0] == "reported" for _ in range(job_reports.JOBS_MAX))
        assert ask(publisher, 1, "one more", {})[:3] == ["failed", 1, "failed"]
        assert ask(publisher, 2, "j0", {})[0] == "reported"
        with Control(sidecar.control) as control:
            answer = control.jobs()
        assert (answer["total"], len(answer["jobs"])) == (job_reports.JOBS_MAX, job_reports.LISTED_MAX)
        assert answer["jobs"][0]["job"] == "j0"


def test_subjects_are_bounded_for_reports_too() -> None:
    """Some are the server's own, so that there is room for fewer than the setting says."""
    with Sidecar(subjects_max=4) as sidecar, WirePublisher(sidecar) as publisher:
        answers = [ask(publisher, 1, f"j{number}", {}) for number in range(5)]
        assert answers[-1][:3] == ["failed", 1, "failed"]
        assert answers[0] == ["reported", 1]
        assert ask(publisher, 2, "j0", {}) == ["reported", 2]


def test_reports_count_towards_the_rate() -> None:
    """One that reports without end is held as one that publishes without end is."""
    with Sidecar(publications_per_second_max=5) as sidecar, WirePublisher(sidecar) as publisher:
        for number in range(40):
            publisher.packet("report", number, "bars", {})
        assert publisher.next()[0] == "reported"
        with Control(sidecar.control) as control:
            assert until(lambda: control.stats()["limited_publications"] > 0)


def test_reports_reach_the_clients_of_all_workers() -> None:
    with Sidecar(workers=2) as sidecar, WirePublisher(sidecar) as publisher:
        clients = [WireClient(sidecar) for _ in range(6)]
        try:
            for client in clients:
                client.subscribe("/__sys__/jobs/bars")
            ask(publisher, 1, "bars", {"state": "running"})
            assert [client.message()[3] for client in clients] == ["running"] * 6
        finally:
            for client in clients:
                client.sock.close()


def test_the_client_reports_and_goes_on_after_a_loss() -> None:
    """The first trouble is told; the next report connects again."""
    with Sidecar() as sidecar:
        reporter = Reporter(sidecar.publisher_url)
        try:
            reporter.report("bars", {"batch": "1"})
            reporter.report("bars", {"batch": "2"})
            assert listed(sidecar)["bars"]["fields"] == {"batch": "2"}
            with pytest.raises(RefusedMessage, match="invalid"):
                reporter.report("a/b", {})
            sidecar.kill()
            with pytest.raises(PublishTimeout):
                reporter.report("bars", {"batch": "3"})
            sidecar.start()
            reporter.report("bars", {"batch": "4"})
            assert listed(sidecar)["bars"]["fields"] == {"batch": "4"}
        finally:
            reporter.close()


def test_the_client_says_why_it_is_not_let_in() -> None:
    with (
        Sidecar(mode="jwt", token_secret=SECRET) as sidecar,
        Reporter(sidecar.publisher_url, "no token") as reporter,
        pytest.raises(ConnectionRejected),
    ):
        reporter.report("bars", {})
