"""System checks: the REALTIME keys are known, and the sidecar answers and takes the project's tokens."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

from django.conf import STATICFILES_STORAGE_ALIAS, settings
from django.contrib.staticfiles.storage import HashedFilesMixin
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import storages

from entitlement import tokens
from entitlement.keys import KeysError
from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.client.errors import ClientError
from fastpath.core.auth.tokens import KEY_UNKNOWN
from fastpath.core.protocol.errors import Close
from realtime.conf import KEYS, conf

RENAMED = {"CLIENT_URLS": "SERVERS"}

_ANSWER_SECONDS = 1.0
"""A sidecar that needs longer than this to say hello is worth a warning."""


def check_keys(**_: Any) -> list[CheckMessage]:
    """A mistyped key would silently leave the default in force."""
    found: list[CheckMessage] = []
    for key in getattr(settings, "REALTIME", {}):
        if key not in KEYS:
            close = [RENAMED[key]] if key in RENAMED else difflib.get_close_matches(str(key).upper(), KEYS, 1, 0.5)
            hint = f"Did you mean {close[0]} ({KEYS[close[0]]})?" if close else f"Known keys: {', '.join(KEYS)}."
            found.append(Error(f'REALTIME["{key}"] is not a setting.', hint=hint, id="realtime.E001"))
    return found


def check_publishing(**_: Any) -> list[CheckMessage]:
    """A value that is not known would be missed until the first message."""
    found: list[CheckMessage] = []
    for name in ("backend", "on_failure"):
        try:
            getattr(conf, name)
        except ImproperlyConfigured as error:
            found.append(Error(str(error), id="realtime.E020"))
    return found


def check_listeners(**_: Any) -> list[CheckMessage]:
    """A listener that cannot be imported would be missed only when something is looked up."""
    if not conf.listeners:
        return []
    from realtime import listening  # noqa: PLC0415 - few projects have any

    try:
        listening.listeners()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E010")]
    return []


def check_addresses(**_: Any) -> list[CheckMessage]:
    """Addresses of their own for the statistics that cannot be read would be missed only when they are needed."""
    try:
        conf.stats_listen, conf.jmx  # noqa: B018 - they raise
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E012")]
    return []


def check_hook(**_: Any) -> list[CheckMessage]:
    """Without its hook nobody gets in."""
    if not conf.hook:
        return []
    from realtime.process import hook_runner  # noqa: PLC0415 - few projects have one

    try:
        hook_runner.load()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E011")]
    return []


def check_static_files(**_: Any) -> list[CheckMessage]:
    """With names by content, a module that imports others by their plain names mixes versions after an upgrade."""
    try:
        storage = storages[STATICFILES_STORAGE_ALIAS]
    except (ImproperlyConfigured, ImportError):
        return []  # collectstatic says what is wrong with it
    if not isinstance(storage, HashedFilesMixin) or storage.support_js_module_import_aggregation:
        return []
    return [
        Warning(
            f"{type(storage).__name__} names the client's modules by their content, but not in what they import of "
            "each other: after an upgrade a browser that has cached some of them mixes two versions.",
            hint="Set support_js_module_import_aggregation = True in a subclass of it "
            "(docs/develop/django.md, In production).",
            id="realtime.W005",
        )
    ]


def check_sidecar(**_: Any) -> list[CheckMessage]:
    """Only for ``manage.py check``: other commands run the checks too, and most have no need of the sidecar."""
    if "check" not in sys.argv[1:2]:
        return []
    return sidecar_messages()


def sidecar_messages() -> list[CheckMessage]:
    """What stands between Django and its nodes, if anything."""
    try:
        addresses = conf.controls
        conf.servers("localhost")
    except ImproperlyConfigured as error:
        return [Error(str(error), id="realtime.E002")]
    return [message for address in addresses for message in _node_messages(address, len(addresses) == 1)]


def _node_messages(address: str, alone: bool) -> list[CheckMessage]:
    refused = ""
    try:
        with Control(address, timeout_seconds=_ANSWER_SECONDS) as control:
            hello = control.hello()
            if hello.get("mode") == "rules" and hello.get("generation") is not None:
                refused = _refusal(control)
    except ValueError as error:
        return [Error(f'REALTIME["CONTROL"]: {error}', id="realtime.E002")]
    except ClientError as error:
        what = "Nothing is pushed and publish() raises" if alone else f"The node at {label(address)} is away"
        here = f"or by `python -m fastpath` with FASTPATH_CONTROL={address}"
        there = "of another host: is it running, and are the certificates those of its control+tls address?"
        return [
            Warning(
                f"{what}: {error}.",
                hint=f"A node {there}"
                if "://" in address
                else f"It is started by `{Path(sys.argv[0]).name} runrealtime`, {here}.",
                id="realtime.W001",
            )
        ]
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
    if hello.get("engine") == "memory" and not alone:
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
    """Why the sidecar does not know a token of this project for what it is, an expired one; empty when it does."""
    try:
        token = tokens.expired()
    except KeysError:
        return ""  # entitlement.W005 tells of it
    reason = str(control.check("/check/token", "subscribe", token)["reason"])
    return "" if reason.startswith(Close.TOKEN_EXPIRED.label) and KEY_UNKNOWN not in reason else reason
