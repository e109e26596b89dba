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
    "measure": "what is promised in times and rates, and the program that measures it",
    "openapi": "both ports held against their OpenAPI document",
    "hostile": "attacks, and the program that measures what they cost others",
    "postgres": "suites of other folders on PostgreSQL",
    "prometheus": "what a real Prometheus makes of the figures",
    "public_names": "what users, clients and operators call things, and the program that writes it down",
    "redis": "several nodes on one Redis",
    "screenshots": "the pictures of the manual, and the program that takes them",
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
    "screenshots",
    "upgrade",
    "vectors",
)
"""Kinds that are programs as well: they have modules of their own that are no tests."""

AGAIN = {
    "workers/test_delivery.py": "the examples of delivery, with clients and publishers on different workers",
    "edge/clients/test_other_wire.py": "what clients see, over lines of JSON",
    "redis/test_node.py": "the examples of delivery, on Redis",
    "postgres/cases/test_notes.py": "the notes of MariaDB's, which are as late",
    "measure/calls.py": "what a test sends, at its pace",
    "measure/delivery.py": "what a test sends, at its pace",
    "measure/rights.py": "what a test sends, at its pace",
    "measure/work.py": "what a test sends, at its pace",
}
"""Modules that take tests of others, or what these send, to run them once more."""


def product_modules() -> Iterator[Path]:
    """Every module with code, but Django's migrations; an ``__init__.py`` that is a docstring alone has none."""
    for package in PRODUCTS:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and (
                path.name != "__init__.py" or len(ast.parse(path.read_bytes()).body) > 1
            ):
                yield path.relative_to(ROOT)


def mirrored(module: Path) -> Path:
    """Where the test of a module is, below tests/."""
    folder = module.parent.relative_to("fastpath") if module.parts[0] == "fastpath" else module.parent
    return folder / f"test_{module.name}"


def own_modules() -> Iterator[Path]:
    """Every Python file of the tests, below tests/."""
    return (path.relative_to(TESTS) for path in sorted(TESTS.rglob("*.py")))


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


IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|(.*))|import[ \t]+(.*))", re.MULTILINE
)
"""A statement that imports; found without parsing, as this is asked of every file."""


def imports(path: Path) -> set[str]:
    """What a module of the tests imports, as files below tests/, whether they are there or not."""
    package = ("tests", *path.parent.parts)
    names: set[str] = set()
    for dots, module, many, few, whole in IMPORT.findall((TESTS / path).read_text(encoding="utf-8")):
        listed = {one.split()[0] for one in (many or few or whole).partition("#")[0].split(",") if one.strip()}
        start = package[: len(package) - len(dots) + 1] if dots else ()
        base = ".".join([*start, *([module] if module else [])])
        names |= listed if whole else {base, *(f"{base}.{one}" for one in listed)}
    return {f"{name.removeprefix('tests.').replace('.', '/')}.py" for name in names}


def test_no_test_imports_another() -> None:
    tests = {str(path) for path in own_modules() if path.name.startswith(("test_", "conftest"))}
    taken = {str(path): sorted(tests & imports(path) - {str(path)}) for path in own_modules()}
    assert {path: found for path, found in taken.items() if found and path not in AGAIN} == {}
    assert {path for path in AGAIN if not taken[path]} == set(), "no exceptions any more"


@pytest.mark.parametrize(
    "source",
    [
        "import tests.core.test_a",
        "from tests.core.test_a import one  # noqa: F401",
        "    from tests.core import test_a as it, test_b",
        "from tests.core import (\n    test_b,\n    test_a,\n)",
        "from . import test_a",
        "from ..core.test_a import one",
    ],
)
def test_imports_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setitem(globals(), "TESTS", tmp_path)
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "test_c.py").write_text(f'"""Words."""\n{source}\n')
    assert "core/test_a.py" in imports(Path("core/test_c.py"))
