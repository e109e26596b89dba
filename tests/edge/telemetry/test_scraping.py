"""What who scrapes is given: the figures for the password, and all that the dashboard and the alerts name."""

from __future__ import annotations

import http.client
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.settings import Settings, describe
from tests.support.edge.metrics import LISTEN, SECRET
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

GRAFANA = Path(__file__).parents[3] / "docs" / "operate" / "grafana"
DJANGO = {"fastpath_up", "fastpath_statistics"}
"""What Django's /metrics adds (tests/realtime/export/test_exposition.py)."""

LATER = ("fastpath_machine_cpu_ratio", "fastpath_journal_disk_bytes")
"""What is known only some time after the start, which might be between two questions."""

PASSWORD = "grün: 7"


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """A node that waits for its rights, with all parts that have figures of their own."""
    made = Sidecar(
        listen=LISTEN, mode="rules", token_secret=SECRET, metrics_password=PASSWORD, workers=2, journal="interval"
    )
    made.settings["data"] = made.folder / "data"
    with made as running:
        yield running


def ask(sidecar: Sidecar, path: str, authorization: str | bytes = "") -> tuple[http.client.HTTPResponse, bytes]:
    """The answer and its body."""
    connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
    connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def basic(password: str, user: str = "") -> str:
    """As RFC 7617 writes it."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_the_figures_are_for_who_knows_it(sidecar: Sidecar) -> None:
    for authorization in (
        "",
        basic("grün"),
        basic(PASSWORD + " "),
        "Basic " + b64encode(PASSWORD.encode()).decode(),
        "Basic ???",
        "Bearer grün: 8".encode(),
        "Digest grün: 7".encode(),
        "Bearer",
        b"\xff\xfe",
    ):
        answer, body = ask(sidecar, "/metrics", authorization)
        assert answer.status == 401, authorization
        assert answer.headers.get_all("WWW-Authenticate") == ['Basic realm="metrics", charset="UTF-8"', "Bearer"]
        assert b"fastpath_connections" not in body
    for good in (basic(PASSWORD), basic(PASSWORD, "prometheus"), f"bearer {PASSWORD}".encode()):
        answer, body = ask(sidecar, "/metrics", good)
        assert answer.status == 200
        assert b"\nfastpath_connections 0\n" in body


def test_without_it_a_load_balancer_is_told_the_state_and_nothing_more(sidecar: Sidecar) -> None:
    answer, body = ask(sidecar, "/readyz")
    assert (answer.status, json.loads(body)) == (503, {"status": "unavailable"})
    answer, body = ask(sidecar, "/readyz", basic(PASSWORD))
    assert (answer.status, list(json.loads(body)["reasons"])) == (503, ["rights"])
    load_rights(sidecar.control, rule(1, "everyone", "/**"))
    answer, body = ask(sidecar, "/readyz")
    assert (answer.status, json.loads(body)) == (200, {"status": "ok"})
    assert ask(sidecar, "/healthz")[0].status == 200


def test_what_has_to_be_put_right_is_told_of_a_node_that_is_ready(sidecar: Sidecar) -> None:
    load_rights(sidecar.control, rule(3, "everyone", "a/b", allow=False), rule(1, "everyone", "/**"))
    answer, body = ask(sidecar, "/readyz", basic(PASSWORD))
    text = "left out, as they cannot be read: rule 3 (no leading slash); 1 of them may have denied something"
    assert (answer.status, json.loads(body)) == (200, {"status": "ok", "warnings": {"rights": text}})
    assert json.loads(ask(sidecar, "/readyz")[1]) == {"status": "ok"}
    load_rights(sidecar.control, rule(1, "everyone", "/**"))
    assert json.loads(ask(sidecar, "/readyz", basic(PASSWORD))[1]) == {"status": "ok"}


def test_django_reads_the_same_text_over_the_control_socket(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        text = until(lambda: all(f"\n{name} " in (told := control.metrics()) for name in LATER) and told)
    names = {line.split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    _, body = ask(sidecar, "/metrics", basic(PASSWORD))
    assert names == {line.split(" ")[0] for line in body.decode().splitlines() if not line.startswith("#")}
    assert "fastpath_connections" in names


def test_whatever_the_dashboard_and_the_alerts_name_is_served(sidecar: Sidecar) -> None:
    with Control(sidecar.control) as control:
        control.rights()  # as Django's agent says while it is there
        served = set(re.findall(r"^(fastpath_\w+)", control.metrics(), re.MULTILINE)) | DJANGO
    for name in ("fastpath.json", "alerts.yml", "prometheus.yml"):
        named = set(re.findall(r"\bfastpath_\w+", (GRAFANA / name).read_text(encoding="utf-8")))
        assert named
        assert named - served == set(), name


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads((GRAFANA / "fastpath.json").read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["targets"], panel["title"]
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(panel)))
        assert used - {"__rate_interval"} <= variables, panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_it_is_never_shown() -> None:
    assert PASSWORD not in describe(Settings(mode="none", metrics_password=PASSWORD))
