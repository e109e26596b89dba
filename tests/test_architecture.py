"""What holds of the code as a whole and no import contract sees."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import without_coverage
from tools import check_sizes

ROOT = Path(__file__).parents[1]
PACKAGES = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")

MODULES_MAX = {
    "fastpath.core.broker.broker": 275,
    "fastpath.server.app": 636,
    "realtime": 80,
    "fastpath": 60,
    "spark": 60,
}
"""How many modules an import may load in all: a budget for starting that no busy machine distorts."""


SPEAKS_TO_REDIS = {
    f"fastpath/engine/redis/{name}.py"
    for name in (
        "address",
        "checks",
        "connection",
        "engine",
        "messenger",
        "presence",
        "primary",
        "sessions/store",
        "state",
        "tail",
        "writing/confirmation",
        "writing/recent",
        "writing/writer",
    )
}
"""Tasks of their own beside the data path: a publication is handed to them, and what has been read delivered, in one
tick."""

STAGES = {
    f"fastpath/engine/{name}.py"
    for name in (
        "journal/staging/files",
        "journal/staging/transaction_log",
        "redis/staging",
        "staging/memory",
        "staging/store",
    )
}
"""What waits for a commit is no publication yet: its rows are published in slices, each in one tick."""

BEGINS_AND_ENDS = {"fastpath/engine/base.py"}
"""An engine may have to wait before the first publication, and after the last."""

NAMES_ARE_UNIQUE = (
    *(f"fastpath/{name}" for name in ("core", "edge", "engine", "server", "client", "recording", "bench", "logs")),
    "realtime",
    "entitlement",
    "spark",
    "pyspark_fastpath",
)
"""The packages in which a class's name means one thing."""

MEAN_TWO_THINGS = {
    "one thing, as programs of the Python client have it and as the server has it: its other end, or its bytes": """
        Attempt Client Message Presence Range StagingFailed
    """,
    "what programs import, or read in the schema of HTTP, beside a word of HTTP, MQTT or recordings": """
        Disconnected Options Reader Request
    """,
    "messages of the workers, read as messages.NAME, which carry what the protocol says under that name": """
        Asked Present Publish Published Requested
    """,
}
"""Names of classes that mean one thing in each package of fastpath/, and two in all of it."""

CONNECTS = {
    "realtime/nodes/asking.py": "each of all nodes",
    "realtime/nodes/control_sockets.py": "the first node that answers, over connections that a process shares",
    "realtime/nodes/drain.py": "the one node that an operator has named",
    "realtime/management/commands/realtime_drain.py": "that node, until it is empty",
    "realtime/management/commands/runrealtime.py": "its own sidecar, before it starts one",
    "realtime/management/commands/runserver.py": "the sidecar that is there already, before it starts one",
    "realtime/requests/requesting.py": "the first node that answers, which is asked once, over a connection of its own",
    "realtime/test/live.py": "the one that a test has started",
    "entitlement/following/agent.py": "the one sidecar that an agent follows the database into",
    "entitlement/rules/explain.py": "the first node that answers",
    "entitlement/rules/preview.py": "the first node that answers",
}
"""Modules of Django's that open control sockets, and to whom: all nodes are asked in one way."""

ENGINE_NAMES = {"memory", "journal", "redis", "rediss", "redis+sentinel", "rediss+sentinel"}
"""As settings, addresses and the engines themselves have them; the benchmarks measure engines by their names."""

DJANGO_NAMES = {"Command", "Meta", "Migration"}
"""Django looks for a class of this name in each module of commands or migrations, or in each model and form."""


ONE_IN_TWO_FORMS = {"_AnyRun", "_TextRun"}
"""What the type checker is shown of a class that msgspec reads, and the class."""


def loaded_by(module: str) -> set[str]:
    """The modules that a fresh interpreter has after importing one, but for what a system, as Debian, adds to each."""
    program = f"import {module}, json, sys; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=without_coverage(), capture_output=True, check=True
    ).stdout
    return set(json.loads(output)) - {"sitecustomize", "usercustomize"}


def sources(folder: str, *words: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module under a folder as (path, syntax tree); with words, those alone in which one of them stands."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not words or any(word in text for word in words):
            yield str(path.relative_to(ROOT)), ast.parse(text)


def test_the_running_sidecar_loads_neither_django_nor_spark() -> None:
    """Also not by an import that is made at run time."""
    assert not {"django", "channels", "rest_framework", "pyspark", "pyarrow"} & loaded_by("fastpath.server")


@pytest.mark.parametrize(
    "package", ["fastpath.client.publisher.publisher", "fastpath.client.control.client", "spark.datasource"]
)
def test_what_others_import_of_the_sidecar_does_not_bring_its_loop(package: str) -> None:
    """Django and Spark's executors pay for a socket and a codec, not for a server."""
    assert not {"uvloop", "fastpath.server", "fastpath.edge"} & loaded_by(package)


@pytest.mark.parametrize(("module", "modules_max"), MODULES_MAX.items())
def test_importing_stays_cheap(module: str, modules_max: int) -> None:
    """An import that drags a library in shows here before anyone waits for it."""
    assert len(loaded_by(module)) <= modules_max


@pytest.mark.parametrize("folder", ["fastpath/core", "fastpath/engine"])
def test_the_data_path_awaits_nothing(folder: str) -> None:
    """A publication is authorised, numbered and delivered within one tick."""
    asynchronous = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources(folder)
        for node in ast.walk(tree)
        if name not in SPEAKS_TO_REDIS | STAGES | BEGINS_AND_ENDS and isinstance(node, asynchronous)
    ]
    assert not found


def test_the_core_imports_nothing_by_name_at_run_time() -> None:
    """`__import__("time")` would pass the import contracts."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources("fastpath/core")
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in {"__import__", "open", "print", "eval", "exec", "importlib"}
    ]
    assert not found


@pytest.mark.parametrize("package", PACKAGES)
def test_our_packages_are_ours(package: str) -> None:
    """A package on PyPI is called `realtime` too; no dependency may bring it in."""
    program = f"import {package}; print({package}.__file__)"
    output = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert Path(output.stdout.strip()) == ROOT / package / "__init__.py"


def test_the_package_spark_is_never_bound_to_its_bare_name() -> None:
    """`import spark.x` would rebind the name that every notebook gives its session; `from spark import x` does not."""
    found = [
        f"{name}:{node.lineno}"
        for folder in (*PACKAGES, "tests")
        for name, tree in sources(folder, "import spark")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == "spark" and alias.asname is None
    ]
    assert not found


def called(name: str) -> set[str]:
    """The modules of Django's and Spark's packages that make something of this name."""
    return {
        path
        for folder in PACKAGES[1:]
        for path, tree in sources(folder, name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
    }


def test_all_nodes_are_asked_in_one_way() -> None:
    """With realtime/nodes/asking.py: beside each other, each with its own time."""
    assert called("Control") | called("Nodes") == CONNECTS.keys()
    others = {"realtime/requests/runner.py", "realtime/publishing/sending.py"}  # answers; waits for asynchronous code
    assert called("ThreadPoolExecutor") == {"realtime/nodes/asking.py"} | others


def asked_by_name(tree: ast.AST) -> Iterator[int]:
    """Lines that compare something with an engine's name, or name the scheme of its address."""
    compared: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            compared.update(ast.walk(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("startswith", "removeprefix")):
            compared.update(inner for argument in node.args for inner in ast.walk(argument))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            scheme, separator, _ = node.value.partition("://")
            if scheme in ENGINE_NAMES and (separator or node in compared):
                yield node.lineno


def test_nobody_asks_for_an_engine_by_its_name() -> None:
    """Who has to know more asks the engine, or the node that has it (``shared``, ``keeps``), or ``keeps_journal``."""
    names = ast.parse((ROOT / "fastpath" / "engine" / "names.py").read_text(encoding="utf-8"))
    tables = [node for node in ast.walk(names) if isinstance(node, ast.Dict)]
    schemes = {ast.literal_eval(key).partition("://")[0] for table in tables for key in table.keys if key}
    assert schemes == ENGINE_NAMES - {"journal"}, "what is named there nobody else may name"
    found = [
        f"{path}:{line}"
        for folder in PACKAGES
        for path, tree in sources(folder, *ENGINE_NAMES)
        if not path.startswith(("fastpath/engine/", "fastpath/bench/"))
        for line in asked_by_name(tree)
    ]
    assert found == []
    for source in ('a == "redis"', 'a.b.startswith(("x", "rediss://"))', 'A = ("redis://",)', "a in ('memory', 'b')"):
        assert list(asked_by_name(ast.parse(source))), source


@pytest.mark.parametrize("package", NAMES_ARE_UNIQUE)
def test_the_name_of_a_class_means_one_thing_in_a_package(package: str) -> None:
    places: dict[str, list[str]] = {}
    for path, tree in sources(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in DJANGO_NAMES | ONE_IN_TWO_FORMS:
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert places, "no class was looked at"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_the_name_of_a_class_means_one_thing_in_all_of_the_sidecar() -> None:
    """Who finds a name finds what it means: no name begins to mean a second thing."""
    places: dict[str, set[str]] = {}
    for path, tree in sources("fastpath"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in ONE_IN_TWO_FORMS:
                places.setdefault(node.name, set()).add(path)
    excused = {name for names in MEAN_TWO_THINGS.values() for name in names.split()}
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in excused} == {}
    assert excused - twice.keys() == set(), "a name that means one thing needs no excuse"


def test_every_folder_of_tests_is_a_package() -> None:
    """Without `__init__.py` a folder's name can shadow an installed package, and equal file names collide."""
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = 1\n", "no docstring"),
        ('"""No end"""\n', "has no end"),
        ('"""One. Two."""\n', "more than one sentence"),
        ('"""Fine."""\n' + "x = 1\n" * 800, "801 lines"),
        ('"""Fine."""\n\ndef long():\n' + "    x = 1\n" * 60, "long has 61 lines"),
    ],
)
def test_the_check_of_sizes_finds(source: str, fault: str) -> None:
    """`make check` is only worth what it catches."""
    assert [found for found in check_sizes.faults("module.py", source) if fault in found]


def test_the_check_of_sizes_passes_what_is_right() -> None:
    """A short module with one sentence, and more after a blank line, has no fault."""
    source = '"""One sentence, e.g. this.\n\nMore. And more.\n"""\n\ndef short():\n    return 1\n'
    assert not list(check_sizes.faults("module.py", source))


def test_a_folder_is_no_heap() -> None:
    """Nobody finds a room among seventy doors; tests have as many modules as what they test."""
    folder = [f"fastpath/edge/heap/m{number}.py" for number in range(check_sizes.FOLDER_MODULES_MAX)]
    assert not list(check_sizes.crowded([*folder, "fastpath/edge/heap/__init__.py"]))
    assert list(check_sizes.crowded([*folder, "fastpath/edge/heap/more.py"]))
    assert not list(check_sizes.crowded(["tests/" + name for name in [*folder, "fastpath/edge/heap/more.py"]]))


def test_what_is_excused_is_there() -> None:
    """An excuse for a folder that is gone, or that has become small, excuses nothing."""
    for folder in check_sizes.FOLDERS_EXEMPT:
        names = [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
        assert len(names) > check_sizes.FOLDER_MODULES_MAX, folder


def wings() -> Iterator[tuple[str, str]]:
    """Every package as (folder, docstring), but Django's migrations."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            if path.parent.name != "migrations":
                text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
                yield str(path.parent.relative_to(ROOT)), text


def test_the_map_has_every_package() -> None:
    """docs/explain/architecture.md says of each in a sentence what it is."""
    text = (ROOT / "docs" / "explain" / "architecture.md").read_text(encoding="utf-8")
    assert [folder for folder, _ in wings() if folder != "fastpath" and f"`{folder}/`" not in text] == []


RITUAL = {"Never.", "Neither.", "Nothing.", "Observer.", "Trail."}

LAWLESS = {
    "fastpath": "a name for all below it",
    "fastpath/bench": "measures; what it measures has the laws",
    "fastpath/client": "its three clients have theirs",
    "realtime/management": "commands: what they do is in the wings that they call",
    "realtime/management/commands": "commands: what they do is in the wings that they call",
    "realtime/templatetags": "filters of templates",
    "entitlement/management": "commands: what they do is in the wings that they call",
    "entitlement/management/commands": "commands: what they do is in the wings that they call",
    "spark/bench": "measures; what it measures has the laws",
    "spark/support": "functions that jobs share, and nothing that they have in common",
}
"""Packages that open with no laws, and why; what is below the benchmarks' has none either."""


def test_every_wing_opens_with_its_laws() -> None:
    lawless = [
        folder for folder, text in wings() if "\n\nLaws:\n\n* " not in text and not folder.startswith("fastpath/bench/")
    ]
    assert lawless == sorted(LAWLESS, key=lambda folder: (PACKAGES.index(folder.split("/")[0]), folder))


def test_no_docstring_is_said_for_the_lint() -> None:
    """One that says no more than that nothing happens tells why, or is left out."""
    found = [
        f"{path}:{node.lineno}"
        for folder in (*PACKAGES, "tests")
        for path, tree in sources(folder, *(f'"""{said}' for said in RITUAL))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) in RITUAL
    ]
    assert found == []


def test_an_init_file_is_its_docstring() -> None:
    """Importing a leaf must not load its neighbours."""
    assert list(check_sizes.faults("spark/__init__.py", '"""Sentence."""\n\nimport os\n'))
    assert not list(check_sizes.faults("realtime/__init__.py", '"""Sentence."""\n\nimport os\n'))
