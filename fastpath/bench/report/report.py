"""`report`: results in, tables of Markdown out, for the terminal, or with charts for a page of the documentation."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from fastpath.core.protocol.errors import FastpathError

from . import documents
from .summary import Run
from .tables import figures


class ResultsError(FastpathError):
    """A file is not what `--output` writes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `report FILE … [--docs FILE]`."""
    parser.add_argument("results", nargs="+", type=Path, metavar="FILE", help="what --output of run or compare wrote")
    parser.add_argument(
        "--docs",
        type=Path,
        metavar="FILE",
        help=f"rewrite a Markdown page between {documents.BEGIN} and {documents.END}, its charts beside it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the tables, or write them into the page."""
    runs = load(arguments.results)
    if arguments.docs is None:
        print(documents.section(runs, figures(runs)))
    else:
        documents.write_figures(arguments.docs, runs)
    return 0


def load(paths: Iterable[Path], key: str = "scenario") -> list[Run]:
    """Return the runs of files, each a line of JSON that has a text under ``key`` and a machine; raise ResultsError."""
    runs: list[Run] = []
    for path in paths:
        try:
            found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if not all(isinstance(one[key], str) and isinstance(one["machine"]["revision"], str) for one in found):
                raise TypeError(key)
        except OSError as error:
            raise ResultsError(
                f"{path}: {error.strerror}; `python -m fastpath.bench run all --output {path}` makes it"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ResultsError(f'{path}: not results; expected a line {{"{key}": …, "machine": …}} each') from None
        runs += found
    return runs
