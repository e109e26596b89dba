"""Prints the public names of the checkout that it is run in, as JSON; it imports nothing of the tests.

What has moved between the revisions is looked for in each of its places.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Names = dict[str, Any]

APPS = ("realtime", "entitlement")
COMMON = "-h --help --version -v --verbosity --settings --pythonpath --traceback --no-color --force-color --skip-checks"
"""Options that each of Django's commands has."""


def at(name: str, *modules: str) -> Any:
    """What has this name in the first of these modules that is there."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
    raise LookupError(f"{name} is in none of {', '.join(modules)}")


def parameters(function: Callable[..., Any]) -> Names:
    """Each parameter's place, when it has one, and its default."""
    found: Names = {}
    for place, one in enumerate(inspect.signature(function).parameters.values()):
        default = "" if one.default is one.empty else f" = {one.default!r}"
        match one.kind:
            case one.KEYWORD_ONLY:
                found[one.name] = f"keyword{default}"
            case one.VAR_KEYWORD:
                found[f"**{one.name}"] = "any"
            case one.VAR_POSITIONAL:
                found[f"*{one.name}"] = "any"
            case _:
                found[one.name] = f"{place}{default}"
    return found


def members(kind: type) -> Names:
    """The parameters of each public method, and the public properties."""
    found: Names = {"__init__": parameters(kind.__init__)} if inspect.isfunction(kind.__init__) else {}
    for name, value in inspect.getmembers(kind):
        if name.startswith("_"):
            continue
        if inspect.isfunction(value):
            found[name] = parameters(value)
        elif isinstance(value, property) or inspect.isdatadescriptor(value):
            found[name] = "attribute"
    return found


def made_by(function: Callable[..., Any]) -> type:
    """The class that a function says it returns."""
    kind = vars(sys.modules[function.__module__])[inspect.signature(function).return_annotation]
    assert isinstance(kind, type)
    return kind


def of_clients() -> Names:
    """The Python clients."""
    package = importlib.import_module("fastpath.client")
    connect, blocking = package.connect, at("connect", "fastpath.client.blocking")
    transactions = ("fastpath.client.publisher.transactions", "fastpath.client.staging")
    return {
        "fastpath.client": dict.fromkeys(package.__all__, "exported"),
        "connect": parameters(connect),
        "Client": members(made_by(connect)),
        "Message": members(package.Message),
        "Status": members(package.Status),
        "Position": members(package.Position),
        "Presence": members(package.Presence),
        "blocking.connect": parameters(blocking),
        "BlockingClient": members(made_by(blocking)),
        "Publisher": members(at("Publisher", "fastpath.client.publisher")),
        "Control": members(at("Control", "fastpath.client.control")),
        "Nodes": members(at("Nodes", "fastpath.client.control.nodes", "fastpath.client.nodes")),
        "Stager": members(at("Stager", *transactions)),
        "Committer": members(at("Committer", *transactions)),
    }


def of_settings() -> Names:
    """Settings of the sidecar, and those of Django."""
    settings = at("Settings", "fastpath.settings")
    return {
        "FASTPATH": {one.name: repr(one.default) for one in dataclasses.fields(settings)},
        "REALTIME": dict.fromkeys(at("KEYS", "realtime.conf"), "a key"),
    }


def of_django() -> Names:
    """Commands and their options, tables and their columns, migrations, addresses of pages, what is exported."""
    import django
    from django.apps import apps
    from django.core.management import get_commands, load_command_class
    from django.db import connection
    from django.urls import get_resolver

    django.setup()
    commands: Names = {}
    for name, app in get_commands().items():
        if str(app).partition(".")[0] in APPS:
            parser = load_command_class(str(app), name).create_parser("manage.py", name)
            options = [text for action in parser._actions for text in action.option_strings or [action.dest]]
            commands[name] = {option: "an option" for option in options if option not in COMMON.split()}
    models = [model for app in APPS for model in apps.get_app_config(app).get_models()]
    realtime = importlib.import_module("realtime")
    return {
        "commands": commands,
        "tables": {
            model._meta.db_table: {one.column: one.db_type(connection) for one in model._meta.local_fields}
            | {one.name: "an index or constraint" for one in [*model._meta.indexes, *model._meta.constraints]}
            for model in models
        },
        "migrations": {
            f"{app}.{path.stem}": "a migration" for app in APPS for path in Path(app, "migrations").glob("[0-9]*.py")
        },
        "pages": {str(name): routes[0][0] for name, routes in _named(get_resolver()).items()},
        "realtime": dict.fromkeys(realtime.__all__, "exported"),
        "realtime.publish": parameters(realtime.publish),
    }


def _named(resolver: Any) -> dict[str, list[Any]]:
    return {
        name: next(template for template, *_ in resolver.reverse_dict.getlist(name))
        for name in resolver.reverse_dict
        if isinstance(name, str)
    }


def of_spark() -> Names:
    """The session and the options of the data source."""
    options = at("OPTIONS", "spark.options"), at("SOURCE_OPTIONS", "spark.source.options", "spark.source_options")
    sink, source = ({name: repr(one.default) for name, one in table.items()} for table in options)
    return {
        "session.build": parameters(at("build", "spark.session")),
        "write options": sink,
        "read options": source,
        "jobs": {
            path.stem: "a job"
            for path in Path("spark/jobs").glob("[a-z]*.py")
            if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
        },
    }


def of_javascript() -> Names:
    """What ``/static/realtime/client.js`` exports, and the members that its types tell of."""
    folder = Path("realtime/static/realtime")
    text = (folder / "client.js").read_text(encoding="utf-8")
    exported = re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.MULTILINE)
    for group in re.findall(r"^export \{([^}]*)\}", text, re.MULTILINE):
        exported += [name.split()[-1] for name in group.split(",") if name.strip()]
    found: Names = {"client.js": dict.fromkeys(exported, "exported")}
    types = (folder / "client.d.ts").read_text(encoding="utf-8")
    for kind, name, body in re.findall(r"^export (interface|class|type) (\w+)(.*?)(?=^export |\Z)", types, re.M | re.S):
        found[name] = dict.fromkeys(re.findall(r'"([\w ]*)"', body), "a value") if kind == "type" else {}
        found[name] |= dict(re.findall(r"^  (?:readonly )?(\w+)(\??[:(])", body, re.MULTILINE))
    return found


def main() -> None:
    """Print all of them."""
    close = at("Close", "fastpath.core.protocol.errors", "fastpath.core.errors")
    names = {
        "clients": of_clients(),
        "settings": of_settings(),
        "django": of_django(),
        "spark": of_spark(),
        "javascript": of_javascript(),
        "close codes": {one.name.lower(): int(one) for one in close},
    }
    sys.stdout.write(json.dumps(names, default=repr))


if __name__ == "__main__":
    main()
