"""No hidden wiring: who serves what stands in one list, and no object sets the attributes of another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = (
    *("fastpath/core", "fastpath/edge", "fastpath/engine", "fastpath/server", "fastpath/client", "fastpath/logs"),
    *("fastpath/recording", "realtime", "entitlement", "spark"),
)

RECORDS = {
    "counters": "counts of the whole process, of plain integers that the data path raises in place",
    "client": "what is known of a connection, without behaviour: the broker, the sessions and the port share it",
    "who": "a client, or a publisher's connection",
    "topic": "what is known of a subject: the broker, recovery and what reads a journal or a copy share it",
    "copied": "a topic while it is copied",
    "message": "the message itself, which gets its number and its place in the cache",
    "newest": "a message",
    "run": "messages of a batch in columns",
    "snapshot": "the latest fields of a subject",
    "history": "the cache's own counts, when they are read back; who is told of evictions",
    "feed": "those who get the same messages of a subject",
    "progress": "how far the writing of a group has come",
    "group": "clients that get the same bytes",
    "cohort": "clients with the same rights",
    "cursor": "how far a subscription has been sent what is cached",
    "waiting": "a subscription that waits for something",
    "waiting[subject]": "a subscription that waits for something",
    "wild": "a client's subscription to a pattern",
    "wilds": "a client's subscriptions to patterns",
    "wanted": "what a subscriber wants of a subject, and has",
    "request": "a command, as it was read",
    "result": "a part of an answer, before it is sent",
    "results": "answers to the rows of a publisher's batch, while they come",
    "answer": "an answer, before it is sent",
    "offer": "a part of an answer, before it is sent",
    "event": "an event of the audit, before it is written",
    "principal": "who somebody is and what is remembered of that person's rights",
    "_principal": "who somebody is and what is remembered of that person's rights",
    "asked": "what a hook has said of a connection",
    "after": "a principal that follows another one",
    "batch": "a batch that is being written",
    "_batch": "a batch that is being written",
    "uneven()": "a group's progress",
    "context": "a TLS context of the standard library",
    "reader": "the frames of a connection, whose extensions are known after its handshake",
    "_driver": "a subscriber and its driver are one object in two modules",
    "_engine": "the epoch of the state that an engine keeps",
    "latency": "since when the oldest message that is not delivered yet is under way",
    "roster": "whether patterns have changed, until that is told",
    "reading": "how far the tail of Redis has been read",
    "_syncs": "what follows a sync of the journal",
    "writer": "who is told of the state of the connection to Redis",
}
"""Objects of which others set attributes, by the name that they have there, and why that may be."""

FRAMEWORKS = {
    "entitlement/admin_tokens.py": {"obj": "what Django's admin shows is asked of the object"},
    "entitlement/history.py": {
        "update": "Django reads what a manager's method is from the function",
        "delete": "Django reads what a manager's method is from the function",
        "instance": "Django's signals hand on an object only: what it was before goes with it",
        "origin": "Django's signals hand on an object only: who deletes it goes with it",
    },
    "entitlement/rules/forms.py": {"fields['members']": "a form's fields are its own, one class up"},
    "entitlement/rules/transfer.py": {
        "rule": "a row of a table: set, then saved",
        "known": "a row of a table: set, then saved",
    },
    "fastpath/recording/record.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/recording/replay.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/recording/show.py": {"parser": "argparse makes the parser of a command"},
    "realtime/outside/application.py": {
        "settings": "a process of its own, before Django is set up",
        "OwnNames": "Django makes its middleware itself",
    },
    "realtime/stats/api.py": {"response": "Django REST framework logs an exception that the response names"},
    "realtime/web.py": {"WebSocketFactory": "Daphne makes its protocols itself"},
    "spark/jobs/process.py": {"_accumulatorServer": "PySpark has no other way to be quiet at the end"},
    "spark/session.py": {
        "server": "PySpark has no other way to be quiet at the end",
        "getLogger(name)": "a logger of PySpark's",
        "context": "PySpark chooses the interpreter of the tasks by it",
    },
}
"""Objects of Django, argparse, Daphne and PySpark that are set, as these want it, by file and by name."""

CACHES = {
    "entitlement/keys.py: _read": "key files as they were read, until they change",
    "realtime/monitoring/questions.py: _silent": "nodes that have just not answered",
    "realtime/nodes/control_sockets.py: _lock": "a new one in a process that was forked",
    "realtime/nodes/control_sockets.py: _shared": "connections, which all requests of a process share",
    "realtime/stats/access.py: _proved": "passwords that have just been proved, as a hash",
    "realtime/stats/read.py: _read": "statistics as they were read, until newer ones are there",
}
"""What a process of Django remembers over its requests; its modules are all that these have in common."""

DELIBERATE = "fastpath/server/failpoints.py"
"""Wraps methods of live objects where a test's environment asks for it: so it costs nothing when it does not."""

REGISTRY = "fastpath/engine/registry.py"
"""Its table of engines is added to by who brings one, before the sidecar starts."""

MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem", "remove"),
    *("reverse", "setdefault", "sort", "update"),
}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """The modules of the product by their paths."""
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return [
        (str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths if path.parent.name != "migrations"
    ]


def assigned(tree: ast.AST) -> Iterator[tuple[int, ast.Attribute]]:
    """Every attribute that is set, or deleted, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.lineno, node


def is_own(node: ast.Attribute) -> bool:
    """Whether it is an attribute of the object, or the class, whose method sets it."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def declared(tree: ast.Module) -> set[str]:
    """The attributes of the classes of a module: what it declares it may set, as its classes are one thing."""
    names = {node.attr for _, node in assigned(tree) if is_own(node)}
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for part in cls.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                names.add(part.target.id)
    return names


def foreign(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The attributes of other modules' objects that are set: the line, the object's name, and the attribute's."""
    own = declared(tree)
    for line, node in assigned(tree):
        if not is_own(node) and node.attr not in own:
            yield line, ast.unparse(node.value).rpartition(".")[2], node.attr


def built_for_nothing(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Objects that are built and thrown away: what they do is done by being built."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func).rpartition(".")[2]
            if name.lstrip("_")[:1].isupper():
                yield node.lineno, name


def changed_globals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names of a module that change after it was imported."""
    mutable = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, MUTABLE):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            mutable |= {target.id for target in targets if isinstance(target, ast.Name)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.Global):
            yield node.lineno, ", ".join(node.names)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from ((node.lineno, name) for name in mutable if name == ast.unparse(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield from ((node.lineno, name) for name in mutable if name == ast.unparse(node.func.value))


def test_no_object_sets_the_attributes_of_another_one() -> None:
    found = [
        f"{path}:{line}: {name}.{attribute}"
        for path, tree in trees()
        if path != DELIBERATE
        for line, name, attribute in foreign(tree)
        if name not in RECORDS and name not in FRAMEWORKS.get(path, ())
    ]
    assert found == []


def test_every_exception_is_one() -> None:
    used = {path: {name for _, name, _ in foreign(tree)} for path, tree in trees() if path != DELIBERATE}
    assert RECORDS.keys() - set().union(*used.values()) == set()
    assert {path: names.keys() - used[path] for path, names in FRAMEWORKS.items() if names.keys() - used[path]} == {}
    changed = {f"{path}: {name}" for path, tree in trees() for _, name in changed_globals(tree)}
    assert CACHES.keys() - changed == set()


def test_no_object_is_built_for_its_side_effect() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in trees()
        if path != DELIBERATE
        for line, name in built_for_nothing(tree)
    ]
    assert found == []


def test_no_module_changes_after_it_was_imported() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, tree in trees()
        if path != REGISTRY
        for line, name in changed_globals(tree)
        if f"{path}: {name}" not in CACHES
    ]
    assert found == []


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (foreign, "def f(runtime):\n    runtime.audit = 1"),
        (foreign, "def f(runtime):\n    runtime.a.b, c = 1, 2"),
        (foreign, "def f(runtime):\n    runtime.count += 1"),
        (built_for_nothing, "Audit(1)"),
        (built_for_nothing, "edge._Audit(1)"),
        (changed_globals, "_ends: list[int] = []\ndef f():\n    _ends.append(1)"),
        (changed_globals, "_known = {}\nasync def f():\n    _known['a'] = 1"),
        (changed_globals, "one = None\ndef f():\n    global one\n    one = 1"),
    ],
)
def test_the_checks_see_what_they_are_for(check, source: str) -> None:  # type: ignore[no-untyped-def]
    assert list(check(ast.parse(source)))
