"""Many rules cost a subscribe nothing that shows; the benchmark that says so runs."""

from __future__ import annotations

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.micro import rules

MORE_US_MAX = 50
"""How much longer a check may take with many rules than with ten; one look at each rule would be thousands."""

TIMES_MAX = 2
"""How many times as long a round trip may take with them: it also measures the machine, which others share."""


@pytest.mark.parametrize("shape", rules.SHAPES)
def test_a_check_with_thousands_of_rules(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each shape."""
    monkeypatch.setattr(rules, "CHECKS", 2000)
    found = rules.check(shape, 3000)
    assert found.many[0] - found.few[0] < MORE_US_MAX


@pytest.mark.slow
def test_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred thousand rules, alone and in a sidecar."""
    assert main(["rules"]) == 0
    text = capsys.readouterr().out
    rows = {cells[1].strip(): cells[2:4] for cells in (line.split("|") for line in text.splitlines()) if len(cells) > 3}

    def measured(name: str) -> list[float]:
        return [float(cell.split("/")[0].replace(",", "")) for cell in rows[name]]

    for shape in rules.SHAPES:
        few, many = measured(shape)
        assert many - few < MORE_US_MAX, shape
    few, many = measured("subscribe, answer, unsubscribe, answer, µs, p50")
    assert many < TIMES_MAX * few
    assert float(rows["memory of the rules, MB"][1]) < 150
