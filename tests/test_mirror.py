"""The tests mirror the code: who changes a module finds its test beside it, by name.

``fastpath/core/auth/rules.py`` is tested by ``tests/core/auth/test_rules.py``; the other packages keep their first
folder, as in ``tests/realtime/stats/test_windows.py``. A file that tests more than one module, or one from another
side, lies in the folder of the module that it tests most. Other folders are kinds of tests that no module stands for
(KINDS).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PRODUCTS = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")

KINDS = {
    "behaviours": "what the Python client and the JavaScript one both do, as one table, and the program that runs it",
    "browser": "the scripts and pages in a browser",
    "chaos": "faults under load, and the program that injects them",
    "conformance": "MQTT held against the standards with programs of others, and the program that runs a public suite",
    "distribution": "the wheel, installed beside a new project, and what services and containers are made of",
    "documentation": "the code blocks of the pages: each is run, or checked as what it is",
    "examples": "the examples of the documentation, started by their one command",
    "exactly_once": "kills under a real Spark, and the program that checks what was stored",
    "fuzz": "what parsers make of anything at all, and the program that fuzzes them",
    "mariadb": "suites of other folders on MariaDB",
    "measure": "promises in times and rates, and the program that measures them",
    "openapi": "both ports held against their OpenAPI document",
    "hostile": "attacks, and the program that measures what they cost others",
    "postgres": "suites of other folders on PostgreSQL",
    "prometheus": "what a real Prometheus makes of the figures",
    "public_names": "what users, clients and operators call things, and the program that writes it down",
    "redis": "several nodes on one Redis",
    "support": "helpers",
    "upgrade": "what an earlier revision has written is taken over, and the program that had it written",
    "vectors": "the wire protocol in bytes",
    "web_servers": "nginx, Apache and HAProxy in front, as their pages configure them",
    "workers": "several processes of one node",
}
"""Folders that mirror no code, and what they are for."""

PROGRAMS = (
    "behaviours",
    "chaos",
    "conformance",
    "exactly_once",
    "fuzz",
    "hostile",
    "measure",
    "public_names",
    "upgrade",
    "vectors",
)
"""Kinds that are programs as well: they have modules of their own that are no tests."""

AGAIN = {
    "workers/test_delivery.py": "the examples of delivery, with clients and publishers on different workers",
    "postgres/cases/test_notes.py": "the examples of notes, on PostgreSQL",
    "redis/test_node.py": "the examples of delivery, on Redis",
}
"""Test modules that take tests of others to run them once more, on another sidecar."""


def listed(name: str) -> dict[str, str]:
    """A list beside this module as {what: the rest of its line}."""
    lines = (TESTS / name).read_text(encoding="utf-8").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith("#"):
            what, _, rest = line.partition(": ")
            assert what not in found, f"{name} has {what} twice"
            found[what] = rest
    return found


def product_modules() -> Iterator[Path]:
    """Every module with code, but Django's migrations; an ``__init__.py`` that is a docstring alone has none."""
    for package in PRODUCTS:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and (
                path.name != "__init__.py" or len(ast.parse(path.read_bytes()).body) > 1
            ):
                yield path.relative_to(ROOT)


def name_of(module: Path) -> str:
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def mirrored(module: Path) -> Path:
    """Where the test of a module is, below tests/."""
    folder = module.parent.relative_to("fastpath") if module.parts[0] == "fastpath" else module.parent
    return folder / f"test_{module.name}"


def own_modules() -> Iterator[Path]:
    """Every Python file of the tests, below tests/."""
    return (path.relative_to(TESTS) for path in sorted(TESTS.rglob("*.py")))


def test_every_module_has_its_test_or_says_who_covers_it() -> None:
    covered = listed("covered.txt")
    without = {name_of(module) for module in product_modules() if not (TESTS / mirrored(module)).exists()}
    assert without - set(covered) == set(), "no test file in the mirrored place, and no line in covered.txt"
    assert set(covered) - without == set(), "lines of covered.txt that are not needed"
    gone = {test for tests in covered.values() for test in tests.split() if not (TESTS / f"{test}.py").exists()}
    assert gone == set(), "files of covered.txt that are not there"


def test_every_folder_mirrors_one_of_the_code_or_is_a_kind() -> None:
    folders = {path.parent for path in own_modules() if path.name.startswith("test_") and path.parent != Path(".")}
    code = {mirrored(module).parent for module in product_modules()}
    code |= {parent for folder in code for parent in folder.parents}
    assert {str(folder) for folder in folders if folder.parts[0] not in KINDS and folder not in code} == set()


def test_helpers_are_in_support_alone() -> None:
    """So that a test can be read and moved by itself."""
    others = {
        str(path)
        for path in own_modules()
        if not re.match(r"test_|conftest\.py|__init__\.py", path.name) and path.parts[0] not in ("support", *PROGRAMS)
    }
    assert others == set()


PUBLIC = {"_asdict", "_base_manager", "_current_frames", "_exit", "_make", "_meta", "_replace"}
"""Underscored, and public nevertheless: of named tuples, of Django's models, of ``os`` and ``sys``."""


class Summary(ast.NodeVisitor):
    """What a module of the tests, at a path below tests/, imports and reaches into."""

    def __init__(self, path: Path) -> None:
        self.package = ("tests", *path.parent.parts)
        self.imported: set[str] = set()
        """As files below tests/, whether they are there or not."""
        self.named: set[str] = set()
        self.own: set[str] = set()
        """Classes, functions and attributes that the module defines itself."""
        self.visit(ast.parse((TESTS / path).read_bytes()))

    @property
    def reached(self) -> set[str]:
        """The private members that it uses and does not define."""
        return {name for name in self.named - self.own - PUBLIC if re.match(r"_[a-zA-Z]", name)}

    def _import(self, *names: str) -> None:
        self.imported |= {f"{name.removeprefix('tests.').replace('.', '/')}.py" for name in names}

    def visit_Import(self, node: ast.Import) -> None:
        self._import(*(alias.name for alias in node.names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        start = self.package[: len(self.package) - node.level + 1] if node.level else ()
        base = ".".join([*start, *([node.module] if node.module else [])])
        self._import(base, *(f"{base}.{alias.name}" for alias in node.names))
        self.named |= {alias.name for alias in node.names}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.named.add(node.attr)
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            self.own.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "setattr":
            self.named |= {
                one.value for one in node.args[1:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.own.add(node.name)
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.own |= {node.target.id} if isinstance(node.target, ast.Name) else set()
        self.generic_visit(node)


@cache
def summaries() -> dict[Path, Summary]:
    return {path: Summary(path) for path in own_modules()}


def test_no_test_imports_another() -> None:
    tests = {str(path) for path in own_modules() if path.name.startswith(("test_", "conftest"))}
    taken = {str(path): sorted(tests & one.imported) for path, one in summaries().items()}
    others = {path: found for path, found in taken.items() if found and not path.startswith("measure/")}
    assert others.keys() == AGAIN.keys(), "rows of measure time what tests prove, and take it from them"


def reached() -> set[tuple[str, str]]:
    """The private members that tests reach into: (file below tests/, member)."""
    return {(str(path), member) for path, one in summaries().items() for member in one.reached}


def test_private_members_are_reached_only_where_a_reason_is_written_down() -> None:
    """A test that looks inside breaks with every change inside; the list grows shorter, not longer."""
    reasons = {tuple(what.split()) for what in listed("privates.txt")}
    assert reached() - reasons == set(), "no line in privates.txt says why"
    assert reasons - reached() == set(), "lines of privates.txt that are not needed"


@pytest.mark.parametrize("name", ["covered.txt", "privates.txt"])
def test_the_lists_are_sorted(name: str) -> None:
    """So that changes of several authors merge."""
    assert list(listed(name)) == sorted(listed(name))
