"""Tests can fail: none swallows what it asserts, and none ends well because something is not there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BROAD = {"", "Exception", "BaseException", "AssertionError"}
"""What catches a failed assertion; nothing at all catches everything."""


def names(node: ast.expr | None) -> set[str]:
    """Of the exceptions in a handler, or in a call of ``suppress``."""
    if node is None:
        return {""}
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    return {ast.unparse(one).rpartition(".")[2] for one in nodes}


def asserts(body: list[ast.stmt]) -> bool:
    """Whether something is asserted in these statements."""
    return any(isinstance(one, ast.Assert) for statement in body for one in ast.walk(statement))


def swallowed(tree: ast.AST) -> Iterator[int]:
    """Lines at which an assertion may fail and nobody hears of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar) and asserts(node.body):
            for handler in node.handlers:
                if names(handler.type) & BROAD and not any(isinstance(one, ast.Raise) for one in ast.walk(handler)):
                    yield handler.lineno
        elif isinstance(node, ast.With | ast.AsyncWith) and asserts(node.body):
            calls = (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))
            quiet = [call for call in calls if ast.unparse(call.func).endswith("suppress")]
            if any(names(one) & BROAD for call in quiet for one in call.args):
                yield node.lineno


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, and not in a function within it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield child
            yield from own(child)


def locals_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Its parameters, and what it assigns."""
    stored = {one.id for one in own(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return stored | {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}


def left(tree: ast.AST) -> Iterator[int]:
    """Lines at which a test returns for a reason that is not its own: what this machine has, or who runs it."""
    for function in ast.walk(tree):
        if isinstance(function, FUNCTIONS) and function.name.startswith("test_"):
            ways_out = [
                one
                for one in own(function)
                if isinstance(one, ast.If) and any(isinstance(inner, ast.Return) for inner in one.body)
            ]
            known = locals_of(function) if ways_out else set()
            for node in ways_out:
                if not known & {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}:
                    yield node.lineno


def test_no_failed_assertion_is_swallowed_and_no_test_leaves_early() -> None:
    """A test that cannot be run is skipped, which fails in CI (tests/support/no_skips.py)."""
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for tree in [ast.parse(path.read_bytes())]
        for line in (*swallowed(tree), *left(tree))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("try:\n    assert a\nexcept Exception:\n    b()", [3]),
        ("for a in b:\n    try:\n        assert a\n    except (OSError, AssertionError):\n        pass", [4]),
        ("try:\n    assert a\nexcept:\n    pass", [3]),
        ("try:\n    assert a\nexcept Exception:\n    raise", []),
        ("try:\n    assert a\nexcept OSError:\n    pass", []),
        ("with suppress(OSError), contextlib.suppress(AssertionError):\n    assert a", [1]),
        ("with suppress(OSError):\n    assert a", []),
        ("def test_a():\n    if not ROOT:\n        return\n    assert a", [2]),
        ("def test_a():\n    if shutil.which('cc') is None:\n        assert b\n        return\n    assert a", [2]),
        ("def test_a(given):\n    if given > 3:\n        return\n    assert a", []),
        ("def test_a():\n    def inner():\n        if ROOT:\n            return\n    assert a", []),
    ],
)
def test_the_checks_see_what_they_are_for(source: str, lines: list[int]) -> None:
    tree = ast.parse(source)
    assert [*swallowed(tree), *left(tree)] == lines
