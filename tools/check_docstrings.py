"""Checks how docstrings begin, as `make check` does: a function's with a verb, all others' with a noun."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.check_sizes import PRODUCT, modules

QUESTIONS = {
    "how", "what", "whatever", "when", "where", "whether", "which", "who", "whoever", "whom", "whose", "why",
}  # fmt: skip
"""Words that begin a clause without a subject of its own."""

PARTICLES = {
    "after", "and", "as", "at", "because", "before", "behind", "below", "beside", "between", "beyond", "but", "by",
    "called", "during", "else", "except", "for", "from", "if", "in", "into", "like", "never", "not", "of", "on",
    "once", "only", "or", "since", "so", "than", "that", "then", "there", "these", "this", "those", "through", "till",
    "to", "under", "unless", "until", "unlike", "up", "upon", "while", "with", "within", "without", "yet",
}  # fmt: skip
"""Words of which neither a sentence's verb nor the noun for a thing is the first."""

PRONOUNS = {
    "he", "his", "i", "it", "its", "our", "ours", "she", "their", "them", "they", "we", "you", "your",
}  # fmt: skip
"""Words that stand for a noun which a docstring has not named yet when it begins."""

NOUNS = {
    "a", "all", "an", "another", "any", "anybody", "anything", "both", "each", "either", "empty", "every",
    "everybody", "everything", "few", "first", "half", "less", "many", "may", "maximum", "minimum", "more", "most",
    "much", "neither", "no", "nobody", "none", "nothing", "one", "other", "second", "several", "some", "somebody",
    "something", "such", "ten", "the", "third", "three", "two",
}  # fmt: skip
"""Words with which a noun begins, and no verb."""

SECOND_FORMS = re.compile(r"(?<!s)s$|(?<!e)ed$")
"""The ends of "returns" and "returned", and of nouns in the plural."""

VERBS = {
    "embed", "focus", "seed", "shed",
}  # fmt: skip
"""Verbs that end like those forms."""


def fault(kind: str, docstring: str) -> str:
    """Return what is wrong with how a docstring begins; empty when nothing is."""
    found = re.match(r"[A-Za-z]+(?=[\s,.:;]|$)", docstring.lstrip())
    word = found.group() if found else docstring.split()[0] if docstring.split() else ""
    lower = word.lower()
    if lower in QUESTIONS | PARTICLES | PRONOUNS or not word:
        return f"{kind}'s docstring begins with {word!r}"
    if kind == "a function" and (
        found is None or lower in NOUNS or word.isupper() or (SECOND_FORMS.search(lower) and lower not in VERBS)
    ):
        return f"a function's docstring begins with {word!r}, which is no verb in the imperative"
    if kind != "a function" and lower in ("return", "returns"):
        return f"{kind}'s docstring begins with {word!r}; it is a noun"
    return ""


def docstrings(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of each docstring of classes, functions and attributes."""
    for at, node in enumerate(body):
        behind = body[at + 1] if at + 1 < len(body) else None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, _kind(node), text
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(behind, ast.Expr):
            value = behind.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield behind.lineno, "an attribute", value.value
        for inner in ("body", "orelse", "finalbody"):
            below = getattr(node, inner, None)
            if isinstance(below, list):
                yield from docstrings(below)


def _kind(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return "a class"
    is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    return "a property" if is_property else "a function"


def faults(name: str, source: str) -> Iterator[str]:
    """Yield each fault of one module as `file:line: what is wrong`."""
    for line, kind, text in docstrings(ast.parse(source, name).body):
        if wrong := fault(kind, text):
            yield f"{name}:{line}: {wrong}"


def checked(names: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the product and of the tools."""
    for name in names:
        if name.startswith(tuple(f"{package}/" for package in (*PRODUCT, "tools"))):
            yield name


def main() -> int:
    """Print every fault; return 1 if there was one."""
    root = Path(__file__).parents[1]
    found = [
        fault for name in checked(modules(root)) for fault in faults(name, (root / name).read_text(encoding="utf-8"))
    ]
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
