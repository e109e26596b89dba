"""Blocks of Python: their syntax, and every name of ours in them, with the arguments that they give it."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

from fastpath.client import publisher as publishers
from fastpath.client.blocking import BlockingClient
from fastpath.client.control import Control
from fastpath.client.options import OptionNames
from fastpath.client.subscriber.client import Client
from realtime.conf import KEYS

OURS = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")
GIVEN = {
    **dict.fromkeys(("token", "url", "password"), "whatever the reader has"),
    **dict.fromkeys(("client", "publisher", "control", "connect", "session", "os", "F"), "made by a block before it"),
    **dict.fromkeys(("spark", "df", "frame", "query", "path", "checkpoint"), "the reader's Spark, and his frames"),
    **dict.fromkeys(("order", "request", "Rule", "Lost", "Price", "prices", "texts"), "of the reader's project"),
    **dict.fromkeys(("Order", "state_of"), "of the reader's project, too"),
    **dict.fromkeys(("BASE_DIR", "TEMPLATES", "DATABASES", "INSTALLED_APPS", "MIDDLEWARE"), "in settings.py already"),
    **dict.fromkeys(("urlpatterns", "application"), "in urls.py and asgi.py already"),
}
"""Names that a block may use without making them, and whence they are."""
KINDS: dict[str, type] = {
    "client": Client,
    "control": Control,
    "publisher": publishers.Publisher,
    "stager": publishers.Stager,
    "committer": publishers.Committer,
}
"""What a variable of this name is in all blocks."""


def transcript(text: str) -> str:
    """What is typed in an interactive session; AssertionError, if nothing is."""
    typed = [example.source for example in doctest.DocTestParser().get_examples(text)]
    assert typed, "nothing is typed"
    return "".join(typed)


def faults(text: str) -> Iterator[str]:
    """What is wrong with a block: its syntax, imports that do not resolve, calls that our signatures do not take."""
    try:
        tree = compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import(node, known)
    kinds = {name: kind for name, kind in KINDS.items() if name not in _of_others(tree, known)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _attribute(node, known, kinds)
        elif isinstance(node, ast.Call):
            yield from _call(node, known, kinds)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REALTIME":
            yield from _settings(node.value)


def _import(node: ast.Import | ast.ImportFrom, known: dict[str, Any]) -> Iterator[str]:
    for alias in node.names:
        module = alias.name if isinstance(node, ast.Import) else str(node.module)
        if module.split(".")[0] in ("mysite", "hello", "parcels", "people"):  # the reader's own
            continue
        if module == "pymysql":  # it is installed apart (requirements-mariadb.txt)
            continue
        if module == "django.tasks" and django.VERSION < (6, 0):  # where a page says that it needs it
            continue
        try:
            found = importlib.import_module(module)
            if isinstance(node, ast.ImportFrom) and alias.name != "*":
                found = getattr(found, alias.name, None) or importlib.import_module(f"{module}.{alias.name}")
        except ImportError as error:
            yield f"`{ast.unparse(node)}`: {error}"
        else:
            top = alias.asname or alias.name if isinstance(node, ast.ImportFrom) else alias.asname
            if module.split(".")[0] in OURS and top:
                known[top] = found


def _of_others(tree: ast.AST, known: dict[str, Any]) -> set[str]:
    """The variables that the block gives something that is not ours, and the arguments of its functions."""
    return {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)} | {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value.func) not in known
    }


def _attribute(node: ast.Attribute, known: dict[str, Any], kinds: dict[str, type]) -> Iterator[str]:
    if isinstance(node.value, ast.Name):
        owner = known.get(node.value.id) if inspect.ismodule(known.get(node.value.id)) else kinds.get(node.value.id)
        blocking = node.value.id == "client" and hasattr(BlockingClient, node.attr)
        if owner is not None and not hasattr(owner, node.attr) and not blocking and not _is_set(owner, node.attr):
            yield f"{node.value.id} has no {node.attr}"


def _is_set(owner: Any, name: str) -> bool:
    """Whether instances get such an attribute when they are made."""
    return inspect.isclass(owner) and f"self.{name} = " in inspect.getsource(owner)


def _call(node: ast.Call, known: dict[str, Any], kinds: dict[str, type]) -> Iterator[str]:
    function = node.func
    called: Any = None
    is_method = False
    if isinstance(function, ast.Name):
        called = known.get(function.id)
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        kind, module = kinds.get(function.value.id), known.get(function.value.id)
        is_method = kind is not None and not inspect.ismodule(module)
        called = getattr(kind if is_method else module, function.attr, None)
    starred = any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords)
    if called is None or not callable(called) or starred:
        return
    given = {one.arg: None for one in node.keywords if one.arg}
    try:
        bound = inspect.signature(called).bind(*[None] * (len(node.args) + is_method), **given)
    except TypeError as error:
        yield f"`{ast.unparse(node)[:80]}`: {error}"
        return
    options = bound.arguments.get("options", {})
    if str(getattr(called, "__module__", "")).startswith("fastpath.client"):
        wrong = sorted(set(options) - set(OptionNames.__annotations__))
        yield from (f"connect() has no option {name}" for name in wrong)


def _settings(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Dict):
        names = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        yield from (f"REALTIME has no {name}" for name in sorted(map(str, names - set(KEYS))))


def undefined(texts: dict[str, str], folder: Path) -> list[str]:
    """Each name that a text uses and nobody makes, nor is GIVEN; texts by a name that a file may have."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821",
        "--output-format",
        "json",
        "--exit-zero",
    ]
    done = subprocess.run([*argv, str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = [(Path(one["filename"]).stem, one["message"]) for one in json.loads(done.stdout)]
    return [f"{name}: {message}" for name, message in found if message.split("`")[1] not in GIVEN]
