"""The page and the documentation made from a results file."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from argparse import ArgumentParser
from pathlib import Path

import pytest

from fastpath.bench.report import charts, documents, report
from fastpath.bench.report.page import page
from fastpath.bench.report.summary import rows
from fastpath.bench.report.tables import Figure, figures
from tests.support.bench.results import RESULTS, run

SVG = "{http://www.w3.org/2000/svg}"


def figure(title: str) -> Figure:
    """One figure of the sample, by the beginning of its title."""
    return next(figure for figure in figures(RESULTS) if figure.title.startswith(title))


def texts(svg: str) -> list[str]:
    """What a chart says, without its title and description."""
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - our own


def test_runs_of_a_scenario_become_one_row_with_median_and_spread() -> None:
    """Comparisons are rows of their own."""
    first = rows(RESULTS["runs"])[0]
    ratio = first.spread("ratio")

    assert (first.label, len(first.runs)) == ("F1", 3)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (1.18, 1.1, 1.25)
    assert [row.scenario for row in rows(RESULTS["runs"]) if not row.peer] == ["F1", "F4", "F10"]


def test_sizes_and_forms_are_told_apart_where_they_differ() -> None:
    """F4 at two sizes, F1 in two forms."""
    runs = [
        run("F4", 1, connections=18_000),
        run("F4", 1, connections=10_000),
        run("F1", 1),
        run("F1", 1, form="msgpack"),
    ]

    assert [row.label for row in rows(runs)] == ["F1 json", "F1 msgpack", "F4 10k", "F4 18k"]


def test_each_target_is_met_or_missed() -> None:
    """A median decides; what was not measured is not met."""
    verdicts = {
        (row.scenario, verdict.target.text): verdict.word for row in rows(RESULTS["runs"]) for verdict in row.verdicts
    }

    assert verdicts == {
        ("F1", "≤ 1.20 × floor"): "met",
        ("F4", "≤ 1.20 × floor"): "met",
        ("F4", "p99 ≤ 15 ms"): "missed",
        ("F10", "none missing"): "missed",
    }
    assert [verdict.word for verdict in rows([run("F1", 2.0)])[0].verdicts] == ["not measured"]


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Cost as a multiple", ["×1.18", "×1.12", "F1", "F4"]),
        ("Server CPU seconds", ["2.36", "11.2"]),
        ("Latency", ["F10", "1 ms", "100 ms", "p99.9"]),
        ("Deliveries", ["346k"]),
        ("F1: CPU seconds", ["Floor (bare C)", "Fastpath", "Nchan", "Channels + Daphne", "2", "2.3", "3.45", "321"]),
    ],
)
def test_a_chart_shows_the_numbers(title: str, said: list[str]) -> None:
    """As text in the drawing, so that nobody has to measure a bar."""
    assert set(said) <= set(texts(figure(title).svg))


def test_a_chart_has_a_title_and_a_description_with_the_numbers() -> None:
    """For those who do not see it."""
    root = ET.fromstring(figure("F1: CPU seconds").svg)  # noqa: S314 - our own

    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert "Nchan 3.45" in (description.text or "")


def test_the_bar_of_a_slow_peer_is_cut() -> None:
    """It would make all the others look alike."""
    svg = figure("F1: CPU seconds").svg

    assert svg.count('class="cut"') == 1
    ends = [float(x) + float(width) for x, width in re.findall(r'd="M([\d.]+) [\d.]+h([\d.]+)q', svg)]
    assert max(ends) <= charts.RIGHT


def test_the_page_needs_nothing_else() -> None:
    """No address but the namespace of SVG, no script, and what a machine calls itself is escaped."""
    html = page(RESULTS)

    assert not [url for url in re.findall(r"(?:https?:)?//[^\s\"'<)]+", html) if url != "http://www.w3.org/2000/svg"]
    assert not re.search(r"<(script|link|img|iframe)|@import|url\(", html)
    assert "A processor &lt;of this&gt; machine" in html
    assert html.count("<svg") == html.count("<details><summary>The numbers")
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_the_page_says_what_was_run() -> None:
    """Command, settings, the runs' length."""
    html = page(RESULTS)

    for part in ("python -m fastpath.bench run all", "FASTPATH_MODE = rules", "5 s a run", "3 lost"):
        assert part in html


def test_the_documentation_is_rewritten_between_its_markers_only(tmp_path: Path) -> None:
    """Twice gives the same bytes; the prose stays; charts that are no more go."""
    path = tmp_path / "benchmarks.md"
    path.write_text(f"# Prose\n\n{documents.BEGIN}\nstale tables\n{documents.END}\n\nMore prose.\n", encoding="utf-8")
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "stale.svg").write_text("<svg/>")

    written = documents.write(RESULTS, path)
    first = {file: file.read_bytes() for file in written}
    documents.write(RESULTS, path)

    assert {file: file.read_bytes() for file in written} == first
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Prose\n\n<!-- tables begin -->\n*")
    assert text.endswith("<!-- tables end -->\n\nMore prose.\n")
    assert "stale tables" not in text
    assert "| F4 | met | 1.12 × (1.11 to 1.13) | ≤ 1.20 × floor |" in text
    assert "|  | **missed** | 17.5 ms (17.5 to 17.5) | p99 ≤ 15 ms |" in text
    assert sorted(folder.glob("*.svg")) == sorted(file for file in written if file.suffix == ".svg")
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["no markers", f"{documents.END}\n{documents.BEGIN}", documents.BEGIN])
def test_a_page_without_its_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    """The error names them."""
    path = tmp_path / "benchmarks.md"
    path.write_text(text)

    with pytest.raises(documents.MarkerError, match="tables begin"):
        documents.write(RESULTS, path)

    assert path.read_text() == text
    assert not path.with_suffix("").exists()


def test_a_chart_as_a_file_brings_its_colours() -> None:
    """For light and for dark, on a background of its own."""
    svg = charts.standalone(figure("Latency").svg)

    assert "prefers-color-scheme:dark" in svg
    assert ET.fromstring(svg).find(f"{SVG}rect") is not None  # noqa: S314 - our own


def test_the_command_merges_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What run wrote and what compare wrote make one page."""
    paths = []
    for number, runs in enumerate((RESULTS["runs"][:7], RESULTS["runs"][7:])):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(RESULTS | {"runs": runs}))
    parser = ArgumentParser()
    report.add_arguments(parser)

    assert report.run(parser.parse_args([str(path) for path in paths])) == 0

    assert (tmp_path / "0.html").read_text() == page(RESULTS)
    assert "0.html" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "word"), [("{", "not results"), ('{"runs": [1]}', "not results"), (None, "--output")])
def test_a_file_that_is_no_result_is_refused_in_words(tmp_path: Path, text: str | None, word: str) -> None:
    """And what makes one is named."""
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(report.ResultsError, match=word):
        report.load([path])
