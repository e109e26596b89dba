"""The table of figures, and what follows from it."""

from __future__ import annotations

from fastpath.core.telemetry.figures import FIGURES, LEAST, MOST, SAMPLED, SHARED, SUM, of_nodes
from fastpath.core.telemetry.samples import NAMES
from tools import figures_reference


def test_several_nodes_make_one_figure() -> None:
    """By the rule of the figure; what nodes on one engine all see counts once."""
    each = [
        (rule, of_nodes(rule, 3, 4, shared=shared)) for rule in (SUM, MOST, LEAST, SHARED) for shared in (False, True)
    ]
    assert each == [(SUM, 7), (SUM, 7), (MOST, 4), (MOST, 4), (LEAST, 3), (LEAST, 3), (SHARED, 7), (SHARED, 4)]


def test_each_column_of_a_sample_is_of_one_figure() -> None:
    columns = [figure.sampled for figure in FIGURES.values() if figure.sampled]
    assert len(columns) == len(SAMPLED) == len(set(columns))
    assert set(NAMES) == {"seconds", *columns}


def test_the_page_for_operators_lists_them_as_they_are() -> None:
    text = figures_reference.PAGE.read_text(encoding="utf-8")
    assert text == figures_reference.page(text), "run python tools/figures_reference.py"
