"""`wire`: bytes a message, ours and others', as the documentation has them."""

from __future__ import annotations

import argparse

from . import documents
from .tables import wire_figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing, as `wire` has no options."""
    del parser


def run(arguments: argparse.Namespace) -> int:
    """Print every framing of every sample."""
    del arguments
    for figure in wire_figures():
        print(f"{figure.title}\n\n{documents.markdown(figure.table)}\n")
    return 0
