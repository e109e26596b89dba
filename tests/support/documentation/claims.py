"""Which code block of the documentation which test runs, read out of the tests' calls of ``one`` and ``every``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.guide import Block, every, one, read
from tests.support.realtime.server import ROOT

TESTS = ROOT / "tests"
_ASKING = {one.__name__: ("page", "language", "text"), every.__name__: ("page", "language", "pattern", "before")}


class Claim(NamedTuple):
    """A call in a file of tests, with the arguments that are literals or names of literals there."""

    where: str
    function: str
    arguments: dict[str, str]

    def blocks(self) -> list[Block]:
        """Those that the call returns; AssertionError, if the page has none such."""
        if self.function == every.__name__:
            return every(**self.arguments)
        text = one(**self.arguments)
        return [
            block
            for block in read(self.arguments["page"])
            if (block.language, block.text) == (self.arguments["language"], text)
        ]


def claims() -> Iterator[Claim]:
    """Every call in a file of tests; AssertionError where nobody can tell from the text what it asks for."""
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path != Path(__file__) and ("tests.support.guide import" in source or path.name == "guide.py"):
            yield from in_file(path)


def in_file(path: Path, root: Path = ROOT) -> Iterator[Claim]:
    """Those of one file; ``root`` is the folder from where it is named."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        known = _assigned(tree.body, {})
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef):
                known |= _assigned(inner.body, known)
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in _ASKING:
                where = f"{path.relative_to(root)}:{inner.lineno}"
                yield Claim(where, inner.func.id, _arguments(inner, known, where))


def _assigned(body: list[ast.stmt], known: Mapping[str, str]) -> dict[str, str]:
    """The names that get a literal text in a module or function."""
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = _text(node.value, {**known, **found})
            if text is not None:
                found[node.targets[0].id] = text
    return found


def _arguments(call: ast.Call, known: Mapping[str, str], where: str) -> dict[str, str]:
    names = _ASKING[call.func.id]  # type: ignore[attr-defined]
    given = {**dict(zip(names, call.args, strict=False)), **{one.arg: one.value for one in call.keywords if one.arg}}
    found = {}
    for name, node in given.items():
        text = _text(node, known)
        if text is None and name == "before":
            continue  # only the blocks up to a place: who asks so asks elsewhere for all
        assert text is not None, f"{where}: the {name} of `{ast.unparse(call)}` is no literal"
        found[name] = text
    return found


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [_text(part.value if isinstance(part, ast.FormattedValue) else part, known) for part in node.values]
        return None if None in parts else "".join(map(str, parts))
    return None
