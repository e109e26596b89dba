"""schemathesis against both ports: what it makes of the document, valid or not, is answered as that says."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks, negative_data_rejection, not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from fastpath.client.control.client import Control
from fastpath.core.protocol.rest import WAIT_SECONDS_MAX
from tests.support.realtime.server import WebServer
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

EXAMPLES = 15
"""Of each operation, port and kind."""

WITH_INPUT = [
    "GET /snapshot",
    "POST /api/publish",
    "GET /api/history",
    "GET /api/presence",
    "POST /api/disconnect",
    "POST /api/unsubscribe",
    "POST /api/request",
    "GET /session/poll",
    "POST /session/{session}",
    "DELETE /session/{session}",
]

DAPHNE_LINE_BYTES_MAX = 16_000

BOUNDED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
"""As many each time, and the same ones."""


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, str]]:
    """Both ports by name: somebody who may do everything asks."""
    with Sidecar(mode="rules", token_secret=SECRET, presence="/**") as sidecar:
        with Control(sidecar.control) as control:
            control.rules_begin(1)
            control.rules_commit(1)
        with WebServer(sidecar.settings["listen"]) as web:
            client = sidecar.client_url.replace("ws://", "http://").removesuffix("/ws")
            yield {"client port": client, "web port": f"http://127.0.0.1:{web.port}"}


def document(base: str) -> schemathesis.openapi.OpenApiSchema:  # type: ignore[name-defined]
    """What the port says of itself."""
    with urllib.request.urlopen(f"{base}/api/schema/", timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
        found = json.load(answer)
    found["servers"] = [{"url": base}]
    schema = schemathesis.openapi.from_dict(found)
    schema.config.update(base_url=base)
    return schema


TOKEN = mint("ann", superuser=True)


def wait_less(case: Case) -> None:
    """The tests have not the time to wait for news."""
    if isinstance(case.query.get("wait"), int) and 1 < case.query["wait"] <= WAIT_SECONDS_MAX:
        case.query["wait"] = 1


def hold(case: Case, base: str) -> None:
    """Ask, and hold the answer against the document, but for what that says in words alone."""
    load_all_checks()
    wait_less(case)
    try:
        response = case.call(base_url=base, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)
    except requests.exceptions.ConnectionError as error:
        # Daphne ends a connection with a line that is longer, without a word.
        assert error.request is not None
        assert len(error.request.url or "") > DAPHNE_LINE_BYTES_MAX
        return
    said_in_words: list[Any] = []
    if case.path == "/api/publish" or response.status_code in (413, 414, 431):
        # A message that is none has its outcome in the answer; and what is too long is refused, whatever it is.
        said_in_words.append(negative_data_rejection)
    told = response.text
    if (case.path == "/api/history" and ("since" in told or "pattern" in told)) or "too long" in told:
        said_in_words.append(
            positive_data_acceptance
        )  # how since, subject, after and wait belong together; bytes of a subject
    if case.path == "/session/poll":
        said_in_words.append(positive_data_acceptance)  # that session and ack belong together
    if case.path in ("/api/disconnect", "/api/unsubscribe", "/api/request") and response.status_code == 503:
        # A connection of a worker that is away, or was never there; nobody responds.
        said_in_words += [not_a_server_error, positive_data_acceptance]
    case.validate_response(response, excluded_checks=said_in_words, headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "not valid"])
@pytest.mark.parametrize("operation", WITH_INPUT)
@pytest.mark.parametrize("port", ["client port", "web port"])
def test_every_answer_is_as_the_document_says(
    ports: dict[str, str], port: str, operation: str, mode: GenerationMode
) -> None:
    schema = document(ports[port])
    method, path = operation.split(" ")

    @BOUNDED
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def run(case: Case) -> None:
        hold(case, ports[port])

    run()


@pytest.mark.parametrize("port", ["client port", "web port"])
def test_one_answer_leads_to_the_next(ports: dict[str, str], port: str) -> None:
    """By the document's links: what was published is read, and what is behind it."""
    schema = document(ports[port]).exclude(path_regex="^/(events|session)")
    taken: set[str] = set()

    class Course(schema.as_state_machine()):  # type: ignore[misc]
        def call(self, case: Case, **keys: Any) -> Any:
            taken.add(case.path)
            wait_less(case)
            return super().call(case, **keys)

        def get_call_kwargs(self, case: Case) -> dict[str, Any]:
            del case
            return {"headers": {"Authorization": f"Bearer {TOKEN}"}, "timeout": 20}

        def validate_response(self, response: Any, case: Case, *_: Any, **__: Any) -> None:
            assert response.status_code < 500
            case.validate_response(response, excluded_checks=[negative_data_rejection, positive_data_acceptance])

    Course.run(settings=settings(BOUNDED, max_examples=5, stateful_step_count=6))
    assert {"/snapshot", "/api/publish", "/api/history"} <= taken
