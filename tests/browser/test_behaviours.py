"""The JavaScript client's state machine follows the behaviour table (tests/behaviours/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.browser.chromium import new_context

pytestmark = pytest.mark.browser

TABLE = Path(__file__).parents[1] / "behaviours"
CASES: list[dict[str, Any]] = [case for path in sorted(TABLE.glob("*.json")) for case in json.loads(path.read_text())]

TRANSPORTS = ["websocket", "stream", "poll"]

RUN = """async ([cases, transports]) => {
    const { run } = await import("/tests/behaviours/run.js");
    return cases.map((one) => { try { return run(one, transports); } catch (error) { return [String(error.stack)]; } });
}"""


@pytest.fixture(scope="module")
def problems(browser: Browser, files: str) -> dict[str, dict[str, list[str]]]:
    """What was otherwise than each case says, over each transport alone and with all; all of it runs in one page."""
    page = new_context(browser).new_page()
    page.goto(f"{files}/tests/browser/empty.html")
    found: dict[str, dict[str, list[str]]] = {case["name"]: {} for case in CASES}
    for name, transports in {"all": TRANSPORTS, **{one: [one] for one in TRANSPORTS}}.items():
        said: list[list[str]] = page.evaluate(RUN, [CASES, transports])
        for case, lines in zip(CASES, said, strict=True):
            found[case["name"]][name] = lines
    page.close()
    return found


def test_names_are_unique() -> None:
    """A case is called by its name."""
    names = [case["name"] for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_behaviour(problems: dict[str, dict[str, list[str]]], name: str) -> None:
    """The client does what the case says after each step, and nothing else, whatever carries its frames."""
    assert not any(problems[name].values()), problems[name]
