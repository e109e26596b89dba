"""System checks: the REALTIME keys are known, and the sidecar answers and takes the project's tokens."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import Error as DatabaseFailure
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.template import Context, TemplateDoesNotExist, TemplateSyntaxError
from django.template.base import Template
from django.template.loader import get_template
from django.template.loader_tags import BlockNode, ExtendsNode
from django.urls import NoReverseMatch, reverse

from entitlement import tokens
from entitlement.conf import given
from entitlement.keys import KeysError
from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.core.auth.tokens import KEY_UNKNOWN
from fastpath.core.protocol.errors import Close
from realtime.conf import KEYS, conf
from realtime.models import OutboxMessage, OutboxState, StatisticsBucket, StatisticsState
from realtime.nodes.asking import Said, ask_each
from realtime.publishing.outbox.writing import VENDORS

RENAMED = {"CLIENT_URLS": "SERVERS"}

_BLOCKS = {"title", "head", "corner", "content", "scripts"}
"""Blocks that the pages fill in their base template."""

_ANSWER_SECONDS = 1.0
"""A sidecar that needs longer than this to say hello is worth a warning."""


def check_keys(**_: Any) -> list[CheckMessage]:
    """Find mistyped keys, which would silently leave the default in force, and values of another kind, which fail
    late."""
    found: list[CheckMessage] = []
    if not isinstance(whole := getattr(settings, "REALTIME", {}), Mapping):
        hint = 'As in REALTIME = {"ON_FAILURE": "raise"}, or leave it out.'
        return [Error(f"REALTIME is a dict of settings, not {whole!r}.", hint=hint, id="realtime.E001")]
    near = difflib.get_close_matches("REALTIME", set(dir(settings)) - {"REALTIME"}, 1, 0.85)
    if near:
        hint = "It is called REALTIME."
        found.append(Warning(f"Nobody reads {near[0]} of the settings.", hint=hint, id="realtime.W010"))
    for key, value in given().items():
        kinds, words = _KINDS.get(key, (object, ""))
        if value is not None and not isinstance(value, kinds):
            hint = f"It is {KEYS[key]}."
            found.append(Error(f'REALTIME["{key}"] is {words}, not {value!r}.', hint=hint, id="realtime.E025"))
        if key not in KEYS:
            close = [RENAMED[key]] if key in RENAMED else difflib.get_close_matches(str(key).upper(), KEYS, 1, 0.5)
            hint = f"Did you mean {close[0]} ({KEYS[close[0]]})?" if close else f"Known keys: {', '.join(KEYS)}."
            found.append(Error(f'REALTIME["{key}"] is not a setting.', hint=hint, id="realtime.E001"))
    return found


_TEXT = (str, "a text")
_PATH = ((str, Path), "a path")
_LIST = ((list, tuple), "a list")
_KINDS: dict[str, tuple[Any, str]] = {
    "BASE_TEMPLATE": _TEXT,
    "CONTROL": ((str, Path, list, tuple), "a path or an address, or a list of them"),
    "CONTROL_SECONDS": ((int, float), "a number of seconds"),
    "TRACING": (bool, "True or False"),
    "LISTEN": (str, "a text of addresses with commas"),
    "PUBLISHERS": (str, "a text of addresses with commas"),
    "SERVERS": ((list, tuple), "a list of addresses"),
    "HOOK": _TEXT,
    "LISTENERS": _LIST,
    "AUDIT_FOLDER": _PATH,
    "DATA": _PATH,
    "STATS_PASSWORD": _TEXT,
    "JMX_PASSWORD": _TEXT,
    "RELAY_URL": _TEXT,
    "RUNSERVER": (bool, "True or False"),
    "TOKEN_SECRET": _TEXT,
    "TOKEN_KEYS": _PATH,
}
"""Kinds of the values of keys that no other check reads."""

_ADDRESS = re.compile(r"[a-z0-9+]+://(\S*:\d+|/\S+)(\?\S*)?")
"""Form of what the sidecar could listen at; the sidecar says itself what is wrong with the rest."""


def check_publishing(**_: Any) -> list[CheckMessage]:
    """Find values about publishing that are not known, which would be missed until the first message or request."""
    found: list[CheckMessage] = []
    for name in ("backend", "on_failure", "forwarded_max", "publish_seconds", "outbox", "outbox_rows_max"):
        try:
            getattr(conf, name)
        except ImproperlyConfigured as error:
            found.append(Error(str(error), id="realtime.E020"))
    return found


def check_statistics(**_: Any) -> list[CheckMessage]:
    """Find a missing database that the settings name for the statistics, and for ``manage.py check`` its missing
    tables."""
    try:
        alias = conf.stats_database
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E023")]
    if not alias or "check" not in sys.argv[1:2]:
        return []
    try:
        tables = connections[alias].introspection.table_names()
    except DatabaseFailure as error:
        why = " ".join(str(error).split())
        return [Warning(f'The database of the statistics, "{alias}", does not answer: {why}.', id="realtime.W007")]
    absent = {StatisticsState._meta.db_table, StatisticsBucket._meta.db_table} - set(tables)
    if not absent:
        return []
    words = f'the database "{alias}" has no table {" nor ".join(sorted(absent))}: nothing is collected.'
    hint = f"{Path(sys.argv[0]).name} migrate realtime --database {alias}"
    return [Error(f'REALTIME["STATS_DATABASE"] is set, and {words}', hint=hint, id="realtime.E023")]


def check_token_authenticators(**_: Any) -> list[CheckMessage]:
    """Find authenticators that cannot be used, before the first who asks for a token finds out."""
    # It brings the project's authenticators, which may want the project to be set up.
    from realtime import api  # noqa: PLC0415

    try:
        api.token_authenticators()
    except ImproperlyConfigured as error:
        hint = 'REALTIME["TOKEN_AUTHENTICATORS"], else REST_FRAMEWORK["DEFAULT_AUTHENTICATION_CLASSES"], names them.'
        return [Error(str(error), hint=hint, id="realtime.E016")]
    return []


def check_provider(**_: Any) -> list[CheckMessage]:
    """Find faults of the provider's settings, before the first who comes with one of its tokens finds out."""
    if conf.provider is None:
        return []
    from realtime import provider  # noqa: PLC0415 - few projects have one

    try:
        provider.provider_settings()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E024")]
    return []


def check_outbox(**_: Any) -> list[CheckMessage]:
    """Find what keeps the outbox from working; for ``manage.py check`` alone, as a migration brings the table."""
    if "check" not in sys.argv[1:2]:
        return []
    return outbox_messages()


def outbox_messages() -> list[CheckMessage]:
    """Return what stands between publish() and its outbox, if anything."""
    try:
        alias = conf.outbox
    except ImproperlyConfigured:
        return []  # check_publishing tells of it
    if not alias:
        return []
    connection = connections[alias]
    if connection.vendor not in VENDORS:
        return [
            Error(
                f'REALTIME["OUTBOX"] is in "{alias}", which is {connection.display_name}.',
                hint="An outbox is on SQLite or PostgreSQL: there the order of the commits can be told.",
                id="realtime.E021",
            )
        ]
    try:
        tables = connection.introspection.table_names()
    except DatabaseFailure as error:
        why = " ".join(str(error).split())
        return [Warning(f'The database of the outbox, "{alias}", does not answer: {why}.', id="realtime.W006")]
    absent = {OutboxMessage._meta.db_table, OutboxState._meta.db_table} - set(tables)
    if not absent:
        return _outbox_beside(connection)
    return [
        Error(
            f'REALTIME["OUTBOX"] is set, and the database "{alias}" has no table {" nor ".join(sorted(absent))}: '
            "publish() raises.",
            hint=f"{Path(sys.argv[0]).name} migrate realtime --database {alias}",
            id="realtime.E021",
        )
    ]


def _outbox_beside(connection: BaseDatabaseWrapper) -> list[CheckMessage]:
    """SQLite fails a transaction that has read and would write when the sender has written meanwhile."""
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode") or "").upper()
    if connection.vendor != "sqlite" or mode in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    return [
        Warning(
            f'realtime_outbox writes to the database "{connection.alias}" beside the project: requests of it may fail '
            'with "database is locked".',
            hint=f'DATABASES["{connection.alias}"]["OPTIONS"] = {{"transaction_mode": "IMMEDIATE"}} lets them wait.',
            id="realtime.W008",
        )
    ]


def check_extras(**_: Any) -> list[CheckMessage]:
    """Find what the settings ask for and only an extra of the distribution brings; the sidecar tells of its own."""
    found: list[CheckMessage] = []
    if given().get("JMX") and importlib.util.find_spec("pyspark") is None:
        found.append(
            Error(
                'REALTIME["JMX"] is set, and pyspark, whose compiler makes the Java program of it, is not installed.',
                hint="pip install 'django-fastpath[jmx]'",
                id="realtime.E014",
            )
        )
    if conf.tracing and importlib.util.find_spec("opentelemetry") is None:
        found.append(
            Error(
                'REALTIME["TRACING"] is True, and OpenTelemetry is not installed: publish() raises.',
                hint="pip install 'django-fastpath[otel]'",
                id="realtime.E022",
            )
        )
    return found


def check_base_template(**_: Any) -> list[CheckMessage]:
    """Find blocks that the base template lacks, before the first visitor of the console and the monitoring pages
    does."""
    name = conf.base_template
    try:
        absent = _BLOCKS - _blocks(get_template(name).template)
    except TemplateDoesNotExist as error:
        hint = f'REALTIME["BASE_TEMPLATE"] is {name!r}: name a template of the project, or leave it out.'
        return [Error(f"There is no template {error}.", hint=hint, id="realtime.E015")]
    except (ImproperlyConfigured, TemplateSyntaxError, AttributeError):
        return []  # Django's own checks and pages tell of it; or it is no template of Django's own language
    if not absent:
        return []
    words = ", ".join(f"{{% block {block} %}}{{% endblock %}}" for block in sorted(absent))
    return [Error(f"The pages of realtime do not work in {name}.", hint=f"Add to it: {words}.", id="realtime.E015")]


def _blocks(template: Template) -> set[str]:
    """Return the names of a template's blocks, and of those that it extends, be it one of its own name."""
    context = Context()
    found: set[str] = set()
    parent: Template | None = template
    with context.bind_template(template):
        while parent is not None:
            found |= {node.name for node in parent.nodelist.get_nodes_by_type(BlockNode)}
            extending = parent.nodelist.get_nodes_by_type(ExtendsNode)
            parent = extending[0].get_parent(context) if extending else None
    return found


def check_listeners(**_: Any) -> list[CheckMessage]:
    """Find listeners that cannot be imported, which would be missed only when something is looked up."""
    if not conf.listeners:
        return []
    from realtime import listening  # noqa: PLC0415 - few projects have any

    try:
        listening.listeners()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E010")]
    return []


def check_addresses(**_: Any) -> list[CheckMessage]:
    """Find addresses of the statistics that cannot be read, which would be missed only when they are needed."""
    try:
        conf.stats_listen, conf.jmx  # noqa: B018 - they raise
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E012")]
    listen = given().get("LISTEN")
    named = listen.split(",") if isinstance(listen, str) and listen else []
    return [
        Error(
            f'REALTIME["LISTEN"]: {address.strip()!r} is no address of the sidecar.',
            hint="As in clients://127.0.0.1:8800,publishers://127.0.0.1:8801 (docs/operate/ports.md).",
            id="realtime.E012",
        )
        for address in named
        if not _ADDRESS.fullmatch(address.strip())
    ]


def check_hook(**_: Any) -> list[CheckMessage]:
    """Find a hook that cannot be loaded: without it nobody gets in."""
    if not conf.hook:
        return []
    from realtime.process import hook_runner  # noqa: PLC0415 - few projects have one

    try:
        hook_runner.load()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E011")]
    return []


def check_urls(**_: Any) -> list[CheckMessage]:
    """Find URLs that let pages ask neither for tokens nor for the sidecar's addresses; for ``manage.py check``
    alone."""
    return urls_messages() if "check" in sys.argv[1:2] else []


def urls_messages() -> list[CheckMessage]:
    """Return a warning where the project's URLs have none of ours."""
    try:
        reverse("realtime:token")
    except NoReverseMatch:
        return [
            Warning(
                "No page can ask for a token, and there is no console: the project's URLs name none of realtime's.",
                hint=f'In {settings.ROOT_URLCONF}: urlpatterns += [path("realtime/", include("realtime.urls"))]',
                id="realtime.W009",
            )
        ]
    return []


def check_sidecar(**_: Any) -> list[CheckMessage]:
    """Find what keeps the sidecar from serving; for ``manage.py check`` alone, as most commands have no need of it."""
    if "check" not in sys.argv[1:2]:
        return []
    return sidecar_messages()


def sidecar_messages() -> list[CheckMessage]:
    """Return what stands between Django and its nodes, if anything."""
    try:
        addresses = conf.controls
        conf.servers("localhost")
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E002")]
    told = list(zip(addresses, ask_each(addresses, _told, _ANSWER_SECONDS), strict=True))
    return [message for address, said in told for message in _node_messages(address, said, len(addresses) == 1)]


def _told(control: Control) -> tuple[dict[str, Any], str]:
    """Return what the node says of itself, and why it takes no token of this project, if it does not."""
    hello = control.hello()
    has_rules = hello.get("mode") == "rules" and hello.get("generation") is not None
    return hello, _refusal(control) if has_rules else ""


def _node_messages(address: str, said: Said[tuple[dict[str, Any], str]], alone: bool) -> list[CheckMessage]:
    if isinstance(said.failure, ValueError):
        return [Error(f'REALTIME["CONTROL"]: {said.failure}', id="realtime.E002")]
    if said.value is None:
        is_logged = given().get("ON_FAILURE", "log") == "log"
        lost = "what publish() is given is lost" if is_logged else "publish() raises"
        what = f"Nothing is pushed and {lost}" if alone else f"The node at {label(address)} is away"
        here = f"or by `python -m fastpath` with FASTPATH_CONTROL={address}"
        there = "of another host: is it running, and are the certificates those of its control+tls address?"
        return [
            Warning(
                f"{what}: {said.failure}.",
                hint=f"A node {there}"
                if "://" in address
                else f"It is started by `{Path(sys.argv[0]).name} runrealtime`, {here}.",
                id="realtime.W001",
            )
        ]
    hello, refused = said.value
    if hello.get("mode") == "rules" and hello.get("generation") is None:
        return [
            Warning(
                f"The sidecar at {label(address)} runs, but no rights have arrived there yet: it answers nobody.",
                hint="runrealtime sends them; beside a sidecar of its own run `python manage.py realtime_agent`.",
                id="realtime.W002",
            )
        ]
    if refused:
        return [
            Error(
                f"The sidecar at {label(address)} takes no token of this project, so no user gets in: {refused}.",
                hint="Give it what the project signs with: FASTPATH_TOKEN_SECRET is what `manage.py realtime_keys "
                "--secret` prints, FASTPATH_TOKEN_KEYS the file of public keys that `manage.py realtime_keys` names.",
                id="realtime.E013",
            )
        ]
    if hello.get("shared") is False and not alone:
        return [
            Warning(
                f"The node at {label(address)} keeps its messages for itself: its clients miss those of other nodes.",
                hint="Nodes of a cluster have a Redis in common: set FASTPATH_ENGINE for each "
                "(docs/operate/cluster.md).",
                id="realtime.W003",
            )
        ]
    return []


def _refusal(control: Control) -> str:
    """Return why the sidecar does not know a token of this project for an expired one; empty when it does."""
    try:
        token = tokens.expired()
    except KeysError:
        return ""  # entitlement.W005 tells of it
    reason = str(control.check("/check/token", "subscribe", token)["reason"])
    return "" if reason.startswith(Close.TOKEN_EXPIRED.label) and KEY_UNKNOWN not in reason else reason
