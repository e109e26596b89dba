"""A real Prometheus scrapes nodes, asks what the dashboard asks, and knows when to raise an alarm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from realtime.export.exposition import merged
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.guide import one
from tests.support.prometheus import GRAFANA, Prometheus
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0"


def job(sidecar: Sidecar, name: str, **more: Any) -> dict[str, Any]:
    """A job that scrapes one node under a name."""
    static = {"targets": [sidecar.ready["metrics"][0]], "labels": {"node": name}}
    return {"job_name": name, "static_configs": [static]} | more


def test_all_nodes_are_scraped_in_plain_and_with_tls_and_a_password(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    secure = {"scheme": "https", "tls_config": {"ca_file": str(certificate.cert)}}
    with (
        Sidecar(listen=f"{LISTEN},metrics://127.0.0.1:0", workers=2) as plain,
        Sidecar(listen=f"{LISTEN},{certificate.url('metrics')}", metrics_password="grün") as tls,
        Prometheus(
            [
                job(plain, "plain"),
                job(tls, "tls", basic_auth={"username": "prometheus", "password": "grün"}, **secure),
                job(tls, "bearer", authorization={"credentials": "grün"}, **secure),
                job(tls, "stranger", **secure),
            ]
        ) as prometheus,
        WireClient(plain) as client,
        WirePublisher(plain) as publisher,
    ):
        targets = prometheus.targets()
        assert "401" in targets.pop("stranger")
        assert targets == {"plain": "", "tls": "", "bearer": ""}
        client.subscribe("/scraped/one")
        publisher.publish(["/scraped/one", "x"])
        client.message()
        until(lambda: prometheus.query("fastpath_connections") == {"plain": 1, "tls": 0, "bearer": 0}, 10)
        until(lambda: prometheus.query("fastpath_latency_seconds_count").get("plain", 0) >= 1, 10)
        quantile = "histogram_quantile(0.99, sum by (node, le) (fastpath_latency_seconds_bucket))"
        assert 0 < prometheus.query(quantile)["plain"] < 1
        assert len(prometheus.ask("query", query="fastpath_worker_connections")["result"]) == 2
        for expression in [*expressions(), one("docs/operate/figures.md", "promql", "fastpath_latency_seconds")]:
            prometheus.ask("query", query=expression)  # it raises for what Prometheus does not understand
        assert [rule["health"] for rule in rules(prometheus)] == ["ok"] * len(rules(prometheus))


def expressions() -> list[str]:
    """What the dashboard asks, with its variables filled in."""
    dashboard = json.loads((GRAFANA / "fastpath.json").read_text(encoding="utf-8"))
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    values = {"$node": ".*", "$__rate_interval": "1m", "$indicator": "connections"}
    for name, value in values.items():
        found = [expression.replace(name, value) for expression in found]
    assert len(found) > 30
    return found


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    """The alerts as Prometheus has loaded and evaluated them."""
    until(lambda: all(rule["health"] != "unknown" for rule in prometheus.ask("rules")["groups"][0]["rules"]))
    found: list[dict[str, Any]] = prometheus.ask("rules")["groups"][0]["rules"]
    return found


NODE = '{node="a"}'
ALARMS = {
    "FastpathNodeAway": {'up{job="fastpath",node="a"}': "0x20"},
    "FastpathNotReady": {f"fastpath_ready{NODE}": "0x20"},
    "FastpathRightsNotFollowed": {f"fastpath_rights_followed{NODE}": "0x20"},
    "FastpathDenialLeftOut": {f"fastpath_rights_left_out_denying{NODE}": "1x20"},
    "FastpathRightsLeftOut": {f"fastpath_rights_left_out{NODE}": "2x20"},
    "FastpathTriggersMissing": {f"fastpath_triggers_missing{NODE}": "12x20"},
    "FastpathPublicationsFail": {'fastpath_publications_failed_total{node="a",code="failed"}': "0+1x20"},
    "FastpathJournalCannotBeWritten": {f"fastpath_journal_failed_writes_total{NODE}": "0+1x20"},
    "FastpathConnectionsNearLimit": {
        f"fastpath_connections{NODE}": "91x20",
        f"fastpath_connections_max{NODE}": "100x20",
    },
    "FastpathMemoryNearLimit": {f"fastpath_memory_bytes{NODE}": "91x20", f"fastpath_memory_bytes_max{NODE}": "100x20"},
    "FastpathFilesNearLimit": {f"fastpath_files{NODE}": "91x20", f"fastpath_files_max{NODE}": "100x20"},
    "FastpathSubjectsNearLimit": {f"fastpath_subjects{NODE}": "91x20", f"fastpath_subjects_max{NODE}": "100x20"},
    "FastpathWorkerBusy": {'fastpath_worker_cpu_seconds_total{node="a",worker="0"}': "0+58x30"},
    "FastpathStarved": {
        f"fastpath_cpu_waited_seconds_total{NODE}": "0+70x20",
        f"fastpath_workers{NODE}": "2x20",
    },
    "FastpathLoopHeld": {f"fastpath_loop_lag_seconds{NODE}": "0.2x20"},
    "FastpathLatencyHigh": {
        'fastpath_latency_seconds_bucket{node="a",le="0.5"}': "0x20",
        'fastpath_latency_seconds_bucket{node="a",le="1"}': "0+9x20",
        'fastpath_latency_seconds_bucket{node="a",le="+Inf"}': "0+9x20",
    },
    "FastpathSlowClientsClosed": {f"fastpath_slow_closed_total{NODE}": "0+1x20"},
    "FastpathResynchronised": {f"fastpath_resynchronisations_total{NODE}": "0+1x20"},
    "FastpathCacheTooSmall": {'fastpath_evicted_total{node="a",by="memory"}': "0+120x40"},
    "FastpathRecordsDropped": {f"fastpath_log_dropped_total{NODE}": "0+1x20"},
}
"""Each alert, and what raises it: a value each minute."""


UP = ("up", "fastpath_ready", "fastpath_rights_followed")
"""1 when all is well."""


def promtool(tmp_path: Path, cases: list[tuple[str, dict[str, str], int]]) -> None:
    """Evaluate the alerts over series: (alert, series, how many fire after 40 minutes)."""
    tests = []
    for alert, series, count in cases:
        firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
        tests.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": f"{values.rpartition('x')[0]}x40"} for name, values in series.items()
                ],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": "40m", "exp_samples": [{"labels": "{}", "value": count}]}
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(GRAFANA / "alerts.yml")], "tests": tests}))
    answer = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_each_alert_is_raised_by_what_it_is_for(tmp_path: Path) -> None:
    text = (GRAFANA / "alerts.yml").read_text(encoding="utf-8")
    named = [line.split("alert: ")[1] for line in text.splitlines() if "alert: " in line]
    assert sorted(named) == sorted(ALARMS)
    promtool(tmp_path, [(alert, series, 1) for alert, series in ALARMS.items()])


def test_a_node_that_is_well_raises_none(tmp_path: Path) -> None:
    well = {
        name: (
            "1x20"
            if name.startswith(UP)
            else "0x20"
            if "missing" in name or "left_out" in name
            else "100x20"
            if "_max" in name
            else "5x20"
        )
        for series in ALARMS.values()
        for name in series
    }
    well[f"fastpath_loop_lag_seconds{NODE}"] = "0.01x20"
    promtool(tmp_path, [(alert, well, 0) for alert in ALARMS])


def test_the_text_of_several_nodes_passes_promtool() -> None:
    with Sidecar(workers=2) as sidecar, Control(sidecar.control) as control:
        text = control.metrics()
    merged_text = "".join(f"{line}\n" for line in merged({"a": text, "/run/b.sock": text}))
    assert merged_text.count("\nfastpath_connections{") == 2
    answer = subprocess.run(
        ["promtool", "check", "metrics"], input=merged_text, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout + answer.stderr) == (0, "")


def test_the_configuration_passes_promtool(tmp_path: Path) -> None:
    for name in ("prometheus.yml", "alerts.yml"):
        (tmp_path / name).write_bytes((GRAFANA / name).read_bytes())
    answer = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
