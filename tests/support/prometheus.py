"""A real Prometheus on a free port, which scrapes each second."""

from __future__ import annotations

import json
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.waiting import PATIENCE_SECONDS, until

GRAFANA = Path(__file__).parents[2] / "docs" / "operate" / "grafana"


class Prometheus(Program):
    """``with Prometheus([{"job_name": …}, …]) as prometheus:``; the alerts of the documentation are loaded."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self._folder_made = tempfile.TemporaryDirectory(prefix="fp-prometheus-")
        folder = Path(self._folder_made.name)
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(GRAFANA / "alerts.yml")],
            "scrape_configs": jobs,
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(configuration))  # which is YAML as well
        self._jobs = len(jobs)
        self._port = free_port()
        argv = [
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        super().__init__(argv, {}, "Server is ready to receive web requests")

    def __enter__(self) -> Self:
        return super().__enter__()

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self._folder_made.cleanup()

    def ask(self, path: str, **query: str) -> Any:
        """The data that the HTTP API answers."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> dict[str, float]:
        """The value of each series now, by its label ``node``."""
        result = self.ask("query", query=expression)["result"]
        return {one["metric"].get("node", ""): float(one["value"][1]) for one in result}

    def targets(self) -> dict[str, str]:
        """The last error of each target, by its label ``node``; empty: it was scraped."""

        def all_asked() -> list[dict[str, Any]] | None:
            active = self.ask("targets", state="active")["activeTargets"]
            asked = [one for one in active if one["health"] != "unknown"]
            return asked if len(asked) == self._jobs else None

        return {one["labels"]["node"]: one["lastError"] for one in until(all_asked, 10)}
