"""What programs of ours say of command lines, each stopped as soon as it has read its own: JSON in, JSON out.

A process of its own, because it takes `parse_args` from all programs.
"""

from __future__ import annotations

import argparse
import io
import json
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from tests.support.realtime.server import ROOT


class Read(BaseException):
    """A program has read its command line, and has nothing against it."""


_PARSE = argparse.ArgumentParser.parse_args


def read(parser: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
    """``parse_args`` that does not return: it raises ``Read``, or what a parser raises."""
    _PARSE(parser, args, namespace)
    raise Read


def fault(module: str, words: list[str]) -> str:
    """What `python -m` says that refuses these words; empty, if it does not."""
    said = io.StringIO()
    sys.argv = [module, *words]
    try:
        with redirect_stderr(said), redirect_stdout(said):
            runpy.run_module(module, run_name="__main__")
    except Read:
        return ""
    except ImportError as error:
        return str(error)
    except SystemExit as error:
        return (said.getvalue().strip().splitlines() or ["?"])[-1] if error.code else ""
    return "it has read no command line"


def faults(lines: list[tuple[str, list[str]]]) -> list[str]:
    """What each program says, asked in a process of its own."""
    argv = [sys.executable, "-m", __name__]
    done = subprocess.run(argv, input=json.dumps(lines), cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    argparse.ArgumentParser.parse_args = read  # type: ignore[method-assign]
    sys.stdout.write(json.dumps([fault(module, words) for module, words in json.loads(sys.stdin.read())]))
