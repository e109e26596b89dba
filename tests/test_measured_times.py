"""No test that a change has to pass compares a time that it has measured with a bound: the rows of tests/measure do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
ELSEWHERE = ("measure/", "chaos/", "hostile/", "fuzz/", "exactly_once/", "support/")
"""What measures, by itself or in tests that are slow; the rest of it asserts nothing of a test's own."""
BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)


def is_slow(node: ast.AST) -> bool:
    """Whether a test, or a whole module, is marked so."""
    marks = list(getattr(node, "decorator_list", ()))
    for statement in getattr(node, "body", ()) if isinstance(node, ast.Module) else ():
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            marks.append(statement.value)
    return any(ast.unparse(one).endswith("mark.slow") for mark in marks for one in ast.walk(mark))


class Times:
    """What of a function's names are moments of a clock, and what are times that have passed between two."""

    def __init__(self, function: ast.AST) -> None:
        self.moments: set[str] = set()
        self.passed: set[str] = set()
        before = -1
        while len(self.moments) + len(self.passed) != before:
            before = len(self.moments) + len(self.passed)
            for node in ast.walk(function):
                self._look(node)

    def is_passed(self, node: ast.AST) -> bool:
        """Whether a time that has passed is in this expression, or a deadline is compared with a clock."""
        return any(
            (isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and self._reads(one.left, one.right))
            or (isinstance(one, ast.Name | ast.Attribute) and ast.unparse(one) in self.passed)
            for one in ast.walk(node)
        )

    def _reads(self, *nodes: ast.AST) -> bool:
        return all(any(_is_clock(one) or self._is_moment(one) for one in ast.walk(node)) for node in nodes)

    def _is_moment(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.moments

    def _look(self, node: ast.AST) -> None:
        targets: list[ast.expr] = []
        value: ast.AST | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            targets, value = [node.func.value], node.args[0]
        elif isinstance(node, ast.comprehension):
            targets, value = [node.target], node.iter
        while isinstance(value, ast.Call) and ast.unparse(value.func) in ("int", "round") and value.args:
            value = value.args[0]
        if value is None or isinstance(value, ast.Lambda):
            return
        names = {one for target in targets for one in _stored(target)}
        if self.is_passed(value):
            self.passed |= names
        elif (self._reads(value) and not isinstance(value, ast.Call | ast.Compare)) or _is_clock(value):
            self.moments |= names


def _stored(target: ast.expr) -> Iterator[str]:
    """The names in which something is kept; of `took["a"]` it is `took`, of `self.took` all of it."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _stored(one)
    elif isinstance(target, ast.Subscript | ast.Starred):
        yield from _stored(target.value)
    else:
        yield ast.unparse(target)


def _is_clock(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or node.args:
        return False
    owner, _, name = ast.unparse(node.func).rpartition(".")
    return name in CLOCKS and (name != "time" or owner in ("time", "loop"))


def compared(tree: ast.Module) -> Iterator[int]:
    """Lines that assert how long something took, outside tests that are slow."""
    if is_slow(tree):
        return
    for function in ast.walk(tree):
        if isinstance(function, FUNCTIONS) and not is_slow(function):
            times = Times(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Assert):
                    for one in ast.walk(node.test):
                        if isinstance(one, ast.Compare) and isinstance(one.ops[0], BOUNDS) and times.is_passed(one):
                            yield node.lineno


def test_no_test_but_the_slow_ones_compares_a_measured_time_with_a_bound() -> None:
    """A busy machine is no fault: the event is waited for, and its order and content asserted."""
    found = [
        f"{name}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if not (name := str(path.relative_to(TESTS))).startswith(ELSEWHERE)
        for line in sorted(set(compared(ast.parse(path.read_bytes()))))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("began = time.monotonic()\n    b()\n    assert time.monotonic() - began < 1", [4]),
        ("began = perf_counter()\n    took = (perf_counter() - began) * 1000\n    assert 0 < took < 5, took", [4]),
        ("began = loop.time()\n    all.append(loop.time() - began)\n    assert sorted(all)[9] < 5", [4]),
        ("began = time.monotonic()\n    took['a'] = time.monotonic() - began\n    assert max(took.values()) < 1", [4]),
        ("began = time()\n    self.took = time.time() - 9", []),
        ("end = time.monotonic() + 9\n    assert end - time.monotonic() > 1", [3]),
        ("began = int(monotonic())\n    took = int(monotonic()) - began + 1\n    assert b() <= took * 100", [4]),
        ("before = time.time()\n    assert before <= b() <= time.time()", []),
        ("until(lambda: b(), 3 - time.monotonic())\n    assert b() < 3", []),
    ],
)
def test_the_check_sees_what_it_is_for(source: str, lines: list[int]) -> None:
    text = f"def test_a():\n    {source}\n"
    assert list(compared(ast.parse(text))) == lines
    assert list(compared(ast.parse(f"@pytest.mark.slow\n{text}"))) == []
    assert list(compared(ast.parse(f"pytestmark = [pytest.mark.redis, pytest.mark.slow]\n{text}"))) == []
