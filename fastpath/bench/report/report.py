"""`report`: results in, an HTML page or the documentation's tables and charts out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fastpath.core.protocol.errors import FastpathError

from ..machine.description import NOT_RECORDED
from . import documents
from .page import page


class ResultsError(FastpathError):
    """A file is not what `--output` writes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`report FILE … [--html FILE] [--docs FILE]`."""
    parser.add_argument("results", nargs="+", type=Path, metavar="FILE", help="what --output of run or compare wrote")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page that needs nothing else")
    parser.add_argument(
        "--docs",
        type=Path,
        metavar="FILE",
        help=f"rewrite a Markdown page between {documents.BEGIN} and {documents.END}, its charts beside it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write what was asked for; without --html and --docs, the page goes beside the first results."""
    results = load(arguments.results)
    html = arguments.html
    if html is None and arguments.docs is None:
        html = arguments.results[0].with_suffix(".html")
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(results), encoding="utf-8")
        print(html)
    if arguments.docs is not None:
        for path in documents.write(results, arguments.docs):
            print(path)
    return 0


def load(paths: list[Path], key: str = "scenario") -> dict[str, Any]:
    """Several results files as one: the machine of the first, the runs of all, each with a text under ``key`` and the
    revision it was made with.

    Raises ResultsError.
    """
    merged: dict[str, Any] = {"machine": {}, "runs": []}
    for path in paths:
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
            runs = results["runs"]
            if not all(isinstance(run[key], str) for run in runs):
                raise TypeError(key)
            machine = dict(results.get("machine", {}))
        except OSError as error:
            raise ResultsError(
                f"{path}: {error.strerror}; `python -m fastpath.bench run all --output {path}` makes it"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise ResultsError(f'{path}: not results; expected {{"machine": …, "runs": [{{"{key}": …}}]}}') from None
        merged["machine"] = merged["machine"] or machine
        made_with = machine.get("revision", NOT_RECORDED)
        merged["runs"] += [{"revision": made_with} | run for run in runs]
    return merged
