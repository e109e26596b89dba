"""Checks the size of folders, files and functions and the first sentence of every module, as `make check` does."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60
FOLDER_MODULES_MAX = 14
"""Modules of a folder beside `__init__.py`: about as many names as a reader takes in at a glance."""
NO_MODULES = {"__init__.py", "__main__.py"}
PRODUCT = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")
FOLDERS_EXEMPT = {
    "realtime": "an app of Django, whose modules have the names that Django and its settings look for",
    "spark/jobs": "one module a job, as `spark_job NAME` calls them",
}
EXPORTING = {
    "fastpath/client/__init__.py",
    "fastpath/client/control/__init__.py",
    "fastpath/client/publisher/__init__.py",
    "fastpath/logs/__init__.py",
    "pyspark_fastpath/__init__.py",
    "realtime/__init__.py",
    "realtime/test/__init__.py",
    "spark/live/__init__.py",
}
"""The packages whose `__init__.py` exports public names; every other one is a docstring alone."""
GENERATED = "migrations"
"""Django writes the modules of this folder."""


def faults(name: str, source: str) -> Iterator[str]:
    """Yield each fault of one module as `file:line: what is wrong`."""
    lines = source.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{name}:{FILE_LINES_MAX + 1}: {lines} lines, more than {FILE_LINES_MAX}: split the file"
    tree = ast.parse(source, name)
    yield from _docstring_faults(name, tree)
    if name.endswith("__init__.py") and name not in EXPORTING and len(tree.body) > 1:
        yield f"{name}:{tree.body[1].lineno}: code in an __init__.py; only its docstring belongs there"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES_MAX}"


def _docstring_faults(name: str, tree: ast.Module) -> Iterator[str]:
    docstring = ast.get_docstring(tree)
    if not docstring:
        yield f"{name}:1: no docstring; one sentence says what the module is"
        return
    paragraph = " ".join(docstring.split("\n\n", 1)[0].split())
    if not paragraph.endswith((".", ":")):
        yield f"{name}:1: the docstring's first sentence has no end: {paragraph!r}"
    elif ". " in paragraph.replace("e.g. ", "").replace("i.e. ", ""):
        yield f"{name}:1: the docstring opens with more than one sentence; put a blank line after the first"


def crowded(names: Iterable[str]) -> Iterator[str]:
    """Yield each folder of the product that holds more modules than a reader finds his way in."""
    folders = Counter(str(Path(name).parent) for name in names if Path(name).name not in NO_MODULES)
    for folder, count in sorted(folders.items()):
        if folder.startswith(PRODUCT) and folder not in FOLDERS_EXEMPT and count > FOLDER_MODULES_MAX:
            yield f"{folder}: {count} modules, more than {FOLDER_MODULES_MAX}: what belongs together gets a folder"


def modules(root: Path, suffix: str = ".py") -> Iterator[str]:
    """Yield every Python file that git has or would take, or with another suffix, except those that Django
    generates."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", f"*{suffix}"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in sorted(filter(None, listed.split("\0"))):
        if GENERATED not in Path(name).parts[:-1] and (root / name).exists():
            yield name


def main() -> int:
    """Print every fault; 1 if there was one."""
    root = Path(__file__).parents[1]
    names = list(modules(root))
    found = [fault for name in names for fault in faults(name, (root / name).read_text(encoding="utf-8"))]
    found += crowded([*names, *modules(root, ".js")])
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
