"""The documentation's tables and charts made from a results file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fastpath.bench.__main__ import main
from fastpath.bench.report import charts, documents, report
from fastpath.bench.report.summary import rows
from fastpath.bench.report.tables import figures
from fastpath.bench.scenarios.result import lines
from tests.support.bench.results import RESULTS, run

SVG = "{http://www.w3.org/2000/svg}"


def test_runs_of_a_scenario_become_one_row_with_median_and_spread() -> None:
    """Comparisons are rows of their own."""
    first = rows(RESULTS)[0]
    ratio = first.spread("ratio")

    assert (first.label, len(first.runs)) == ("F1", 3)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (1.18, 1.1, 1.25)
    assert [row.scenario for row in rows(RESULTS) if not row.peer] == ["F1", "F4", "F10"]


def test_sizes_and_forms_are_told_apart_where_they_differ() -> None:
    """F4 at two sizes, F1 in two forms."""
    sizes = [run("F4", 1, connections=18_000), run("F4", 1, connections=10_000)]
    forms = [run("F1", 1), run("F1", 1, form="msgpack")]

    assert [row.label for row in rows(sizes + forms)] == ["F1 json", "F1 msgpack", "F4 10k", "F4 18k"]


def test_each_target_is_met_or_missed() -> None:
    """A median decides; what was not measured is not met."""
    verdicts = {(row.scenario, verdict.target.text): verdict.word for row in rows(RESULTS) for verdict in row.verdicts}

    assert verdicts == {
        ("F1", "≤ 1.20 × floor"): "met",
        ("F4", "≤ 1.20 × floor"): "met",
        ("F4", "p99 ≤ 15 ms"): "missed",
        ("F10", "none missing"): "missed",
    }
    assert [verdict.word for verdict in rows([run("F1", 2.0)])[0].verdicts] == ["not measured"]


@pytest.mark.parametrize(
    ("title", "row"),
    [
        ("Scenarios", ["F10", "missed", "3 (3 to 3)", "none missing", "9", "346k", "2.50", "4.75", "3 lost, 0 doubled,"
                       " 0 reordered", "1"]),
        ("Cost as a multiple", ["F4", "1.12", "1.11", "1.13", "1.20", "10", "3"]),
        ("Latency", ["F10", "2.50", "3.25", "4.75", "9.50", "31.0"]),
        ("Deliveries", ["F1", "346k", "346k", "346k"]),
        ("F1: CPU seconds", ["Floor (bare C)", "2", "×0.87", "–", "–", "–", "–", "–", "–"]),
        ("F1: CPU seconds", ["Fastpath", "2.3", "×1.00", "346k", "2.50", "4.75", "–", "1k", "none"]),
        ("F1: CPU seconds", ["Nchan", "3.45", "×1.50", "346k", "2.50", "4.75", "10.00", "1k", "none"]),
        ("On the wire: F1", ["Fastpath JSON", "164", "24", "4", "137"]),
    ],
)  # fmt: skip
def test_a_table_has_the_numbers(title: str, row: list[str]) -> None:
    (table,) = (figure.table for figure in figures(RESULTS) if figure.title.startswith(title))

    assert row in table
    assert {len(line) for line in table} == {len(row)}


def test_the_documentation_is_rewritten_between_its_markers_only(tmp_path: Path) -> None:
    """Of several files, which say what was run where; twice gives the same bytes, and the prose stays."""
    page, measured, compared = tmp_path / "benchmarks.md", tmp_path / "bench.json", tmp_path / "compare.json"
    page.write_text(f"# Prose\n\n{documents.BEGIN}\nstale tables\n{documents.END}\n\nMore prose.\n", encoding="utf-8")
    measured.write_text(lines(RESULTS[:7]))
    compared.write_text(lines(RESULTS[7:]))
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "stale.svg").write_text("<svg/>")

    command = ["report", str(measured), str(compared), "--docs", str(page)]
    assert main(command) == 0
    first = page.read_bytes()
    assert main(command) == 0

    assert page.read_bytes() == first
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Prose\n\n<!-- tables begin -->\n*")
    assert text.endswith("<!-- tables end -->\n\nMore prose.\n")
    assert "stale tables" not in text
    assert "| F4 | met | 1.12 × (1.11 to 1.13) | ≤ 1.20 × floor |" in text
    assert "|  | **missed** | 17.5 ms (17.5 to 17.5) | p99 ≤ 15 ms |" in text
    assert "### F1: CPU seconds per million deliveries, beside other servers\n" in text
    for said in ("CPU: A processor", "Revision: 0ld", "Command: python -m fastpath.bench run all", "for: 5 s a run"):
        assert said in text
    drawn = re.findall(r"!\[[^\]]*\]\(benchmarks/([^)]+)\)", text)
    assert sorted(drawn) == sorted(file.name for file in folder.iterdir())
    assert len(drawn) == 6


def test_a_chart_says_its_numbers_and_cuts_what_is_too_long() -> None:
    """As text in the drawing and beside it, for those who do not see it; one slow server does not hide the others."""
    (figure,) = (one for one in figures(RESULTS) if one.title.startswith("F1: CPU seconds"))
    root = ET.fromstring(charts.svg("A <chart>", figure.bars))  # noqa: S314 - our own

    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[1::2] == ["2", "2.3", "3.45", "» 321"]
    assert [root.findtext(f"{SVG}{name}") for name in ("title", "desc")] == [
        "A <chart>",
        "Floor (bare C) 2; Fastpath 2.3; Nchan 3.45; Channels + Daphne 321",
    ]
    bars = [(float(bar.get("x", 0)), float(bar.get("width", 0))) for bar in root.iter(f"{SVG}rect") if bar.get("y")]
    assert max(x + width for x, width in bars) == charts.WIDTH - charts.TEXT
    assert [bar.get("class") for bar in root.iter(f"{SVG}rect")] == ["back", None, "ours", None, None]


@pytest.mark.parametrize("text", ["no markers", f"{documents.END}\n{documents.BEGIN}", documents.BEGIN])
def test_a_page_without_its_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    """The error names them."""
    path = tmp_path / "benchmarks.md"
    path.write_text(text)

    with pytest.raises(documents.MarkerError, match="tables begin"):
        documents.write_figures(path, RESULTS)

    assert path.read_text() == text
    assert not path.with_suffix("").exists()


@pytest.mark.parametrize(("text", "word"), [("{", "not results"), ("[1]", "not results"), (None, "--output")])
def test_a_file_that_is_no_result_is_refused_in_words(tmp_path: Path, text: str | None, word: str) -> None:
    """And what makes one is named."""
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(report.ResultsError, match=word):
        report.load([path])
