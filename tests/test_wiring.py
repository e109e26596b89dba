"""No hidden wiring: who serves what stands in one list, and no object sets the attributes of another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("fastpath", "realtime", "entitlement", "spark")

RECORDS = {
    "counters": (
        "counts of the whole process, of plain integers that the data path raises in place",
        "core/broker/broker core/broker/column_batches core/delivery/backlogs core/delivery/conflation_clock "
        "core/delivery/slow_consumers core/delivery/writing core/sessions/cohorts core/sessions/membership "
        "core/sessions/pattern_subscriptions core/sessions/revocation core/sessions/sessions "
        "core/sessions/subscribe_commands core/sessions/subscriptions "
        "edge/clients/connection edge/plain_http/exchange edge/plain_http/reading "
        "edge/publishers/connection edge/workers/follower",
    ),
    "client": (
        "what is known of a connection, without behaviour: the broker, the sessions and the port share it",
        "bench/micro/patterns core/broker/broker core/delivery/backlogs core/delivery/outbox "
        "core/delivery/slow_consumers core/sessions/membership core/sessions/pattern_subscriptions "
        "core/sessions/publications core/sessions/revocation core/sessions/sessions core/sessions/subscriptions "
        "edge/clients/connection edge/requests/clients edge/runtime/runtime",
    ),
    "who": ("a client, or a publisher's connection", "edge/clients/quotas"),
    "topic": (
        "what is known of a subject: the broker, recovery and what reads a journal or a copy share it",
        "core/broker/broker core/broker/column_batches core/broker/options_follower core/broker/state_transfer "
        "core/delivery/interest core/delivery/slow_consumers engine/journal/replay engine/redis/state",
    ),
    "copied": ("a topic while it is copied", "core/broker/state_transfer"),
    "message": (
        "the message itself, which gets its number and its place in the cache",
        "bench/guarantee/starts core/broker/broker core/broker/state_transfer core/cache/history "
        "core/protocol/columns core/protocol/packets core/sessions/publications edge/plain_http/publishing "
        "engine/follower engine/journal/engine engine/journal/replay engine/memory engine/redis/script "
        "recording/replayer",
    ),
    "packet": ("a packet of MQTT, while it is read", "core/mqtt/decoding core/mqtt/talk"),
    "ack": ("a packet of MQTT, while it is read", "core/mqtt/decoding"),
    "one": ("a filter of MQTT, while it is read, and what of it is granted", "core/mqtt/decoding core/mqtt/talk"),
    "newest": ("a message", "core/broker/broker engine/journal/replay"),
    "run": ("messages of a batch in columns", "core/broker/column_batches"),
    "snapshot": (
        "the latest fields of a subject",
        "core/broker/state_transfer engine/journal/replay engine/redis/entries",
    ),
    "history": ("the cache's own counts, when they are read back; who is told of evictions", "engine/journal/replay"),
    "feed": (
        "those who get the same messages of a subject",
        "core/delivery/backlogs core/delivery/conflation_clock core/delivery/interest",
    ),
    "progress": ("how far the writing of a group has come", "core/delivery/writing"),
    "group": (
        "clients that get the same bytes",
        "core/delivery/interest core/delivery/write_batches core/delivery/writing core/sessions/membership",
    ),
    "cohort": ("clients with the same rights", "core/sessions/revocation"),
    "cursor": ("how far a subscription has been sent what is cached", "core/delivery/backlogs"),
    "waiting": (
        "a subscription that waits for something",
        "core/sessions/pattern_subscriptions core/sessions/revocation core/sessions/subscriptions",
    ),
    "waiting[subject]": ("a subscription that waits for something", "core/sessions/pattern_subscriptions"),
    "wild": ("a client's subscription to a pattern", "core/sessions/pattern_subscriptions"),
    "wilds": ("a client's subscriptions to patterns", "core/sessions/membership"),
    "wanted": ("what a subscriber wants of a subject, and has", "client/subscriber/subscriptions"),
    "request": ("a command, as it was read", "core/sessions/pattern_subscriptions"),
    "result": ("a part of an answer, before it is sent", "core/sessions/pattern_subscriptions"),
    "results": ("answers to the rows of a publisher's batch, while they come", "client/publisher/publisher"),
    "answer": (
        "an answer, before it is sent",
        "core/sessions/publications core/sessions/sessions edge/workers/presence",
    ),
    "offer": ("a part of an answer, before it is sent", "core/presence/advertisements"),
    "event": ("an event of the audit, before it is written", "edge/audit/event_queue"),
    "principal": (
        "who somebody is and what is remembered of that person's rights",
        "core/auth/jwt_grants core/auth/rule_grants core/sessions/deferred_commands edge/hooks/publisher_gate",
    ),
    "_principal": ("who somebody is and what is remembered of that person's rights", "edge/hooks/gateway"),
    "asked": ("what a hook has said of a connection", "core/sessions/deferred_commands edge/hooks/publisher_gate"),
    "after": ("a principal that follows another one", "core/auth/hook_grants"),
    "batch": ("a batch that is being written", "engine/redis/writing/writer"),
    "_batch": ("a batch that is being written", "engine/redis/writing/writer"),
    "uneven()": ("a group's progress", "core/delivery/write_batches"),
    "context": (
        "a TLS context of the standard library",
        "bench/scenarios/measure edge/listen/tls_context",
    ),
    "reader": ("the frames of a connection, whose extensions are known after its handshake", "edge/clients/connection"),
    "_driver": ("a subscriber and its driver are one object in two modules", "client/subscriber/client"),
    "_engine": ("the epoch of the state that an engine keeps", "edge/workers/follower"),
    "latency": ("since when the oldest message that is not delivered yet is under way", "edge/runtime/runtime"),
    "roster": ("whether patterns have changed, until that is told", "edge/workers/presence_leader"),
    "reading": ("how far the tail of Redis has been read", "engine/redis/tail"),
    "_syncs": ("what follows a sync of the journal", "engine/journal/engine"),
    "writer": ("who is told of the state of the connection to Redis", "engine/redis/engine"),
    "tally": (
        "counts of a measurement, and whether it is going on",
        "bench/guarantee/recovery bench/load/crew bench/load/drive",
    ),
    "swarm": ("the deliveries so far, which who drives the load sets back after the first round", "bench/load/drive"),
    "load": (
        "a measurement, whose connections are conflated as soon as the first round has come",
        "bench/scenarios/conflating",
    ),
    "tracks[index]": (
        "a connection of the load, which is left out of the counts while it stalls",
        "bench/scenarios/stalling",
    ),
}
"""Objects of which others set attributes, by the name that they have there: why that may be, and in which files below
fastpath/. In any other the name stands for something else."""

FRAMEWORKS = {
    "entitlement/sessions.py": {"request": "the session's middleware saves what the request has for a session"},
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
    "fastpath/bench/by_hand/acknowledged.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/bench/by_hand/publish.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/bench/by_hand/subscribe.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/bench/guarantee/guarantee.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/bench/micro/outbox.py": {"parser": "argparse makes the parser of a command"},
    "fastpath/bench/micro/publishing.py": {"parser": "argparse makes the parser of a command"},
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

ENTRIES = {
    "fastpath/core/presence/local_presence.py: observers": "watches the clients while somebody wants to know of them",
    "fastpath/core/sessions/pattern_subscriptions.py: appeared": "of the core itself, before any component is",
    "fastpath/edge/audit/listeners.py: ended": "a peer is listened for as long as its connection lives",
    "fastpath/edge/channel_layer/processes.py: ended": "a peer receives for as long as its connection lives",
    "fastpath/edge/audit/recorder.py: observers": "is told while somebody asks for what it writes down",
    "fastpath/edge/control/publisher_rankings.py: each_second": "in the second of the statistics that it is given",
    "fastpath/edge/control/rankings.py: each_second": "in the second of the statistics that it is given",
    "fastpath/edge/control/tracer.py: observers": "is told while a trace runs",
    "fastpath/edge/requests/control.py: ended": "a peer asks and answers as long as its connection lives",
    "fastpath/edge/hooks/workers.py: ended": "a peer answers for as long as its connection lives",
    "fastpath/edge/telemetry/health.py: beats": "at each beat of the heartbeat that it is given",
    "fastpath/edge/telemetry/rights_assurance.py: ended": "a peer is known for as long as its connection lives",
}
"""Objects that enter themselves into a list of another one, by file and by list, and why they do not offer it."""

REGISTRY = "fastpath/engine/registry.py"
"""Its table of engines is added to by who brings one, before the sidecar starts."""

MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "popitem", "remove"),
    *("reverse", "setdefault", "sort", "update"),
}


class Found(NamedTuple):
    """What a module does, with lines and names."""

    foreign: list[tuple[int, str, str]]
    built: list[tuple[int, str]]
    entered: list[tuple[int, str]]
    changed: list[tuple[int, str]]


@cache
def looked_at() -> list[tuple[str, Found]]:
    """What each module of the product does, by its path: each is parsed once, and no tree stays."""
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return [(str(path.relative_to(ROOT)), look(path.read_text())) for path in paths if path.parent.name != "migrations"]


def look(source: str) -> Found:
    """All that is asked of a module."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    return Found([*foreign(nodes)], [*built_for_nothing(nodes)], [*entered(nodes)], [*changed_globals(tree, nodes)])


def assigned(nodes: list[ast.AST]) -> Iterator[tuple[int, ast.Attribute]]:
    """Every attribute that is set, or deleted, with its line."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.lineno, node


def is_own(node: ast.Attribute) -> bool:
    """Whether it is an attribute of the object, or the class, whose method sets it."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def declared(nodes: list[ast.AST]) -> set[str]:
    """The attributes of the classes of a module: what it declares it may set, as its classes are one thing."""
    names = {node.attr for _, node in assigned(nodes) if is_own(node)}
    for cls in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for part in cls.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                names.add(part.target.id)
    return names


def foreign(nodes: list[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """The attributes of other modules' objects that are set: the line, the object's name, and the attribute's."""
    own = declared(nodes)
    for line, node in assigned(nodes):
        if not is_own(node) and node.attr not in own:
            yield line, ast.unparse(node.value).rpartition(".")[2], node.attr


def files_of(name: str) -> set[str]:
    """The files in which an object of this name is a record that they share with others."""
    return {f"fastpath/{file}.py" for file in RECORDS.get(name, ("", ""))[1].split()}


def built_for_nothing(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Objects that are built and thrown away: what they do is done by being built."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func).rpartition(".")[2]
            if name.lstrip("_")[:1].isupper():
                yield node.lineno, name


def entered(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Lists of other objects that an object enters itself, or its own method, into: the line, and the list's name."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"):
            continue
        entry, (target, *_) = node.func.value, (*node.args, None)
        if isinstance(target, ast.Lambda):
            target = next((one for one in ast.walk(target) if isinstance(one, ast.Name) and one.id == "self"), None)
        elif isinstance(target, ast.Attribute):
            target = target.value
        is_self = isinstance(target, ast.Name) and target.id == "self"
        if is_self and isinstance(entry, ast.Attribute) and ast.unparse(entry.value) != "self":
            yield node.lineno, entry.attr


def changed_globals(tree: ast.Module, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Names of a module that change after it was imported."""
    mutable = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, MUTABLE):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            mutable |= {target.id for target in targets if isinstance(target, ast.Name)}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
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
        for path, seen in looked_at()
        for line, name, attribute in seen.foreign
        if path not in files_of(name) and name not in FRAMEWORKS.get(path, ())
    ]
    assert found == []


def test_every_exception_is_one() -> None:
    excused = {path for name in RECORDS for path in files_of(name)} | FRAMEWORKS.keys()
    used = {path: {name for _, name, _ in seen.foreign} for path, seen in looked_at() if path in excused}
    assert {
        name: gone for name in RECORDS if (gone := {path for path in files_of(name) if name not in used[path]})
    } == {}
    assert {path: names.keys() - used[path] for path, names in FRAMEWORKS.items() if names.keys() - used[path]} == {}
    changed = {f"{path}: {name}" for path, seen in looked_at() for _, name in seen.changed}
    assert CACHES.keys() - changed == set()
    assert ENTRIES.keys() - {f"{path}: {name}" for path, seen in looked_at() for _, name in seen.entered} == set()


def test_no_object_enters_itself_where_it_could_offer_that() -> None:
    """What a component wants to be told stands in its ``offers`` (fastpath/edge/runtime/component.py)."""
    found = [
        f"{path}:{line}: {name}"
        for path, seen in looked_at()
        if path.startswith("fastpath/")
        for line, name in seen.entered
        if f"{path}: {name}" not in ENTRIES
    ]
    assert found == []


def test_no_object_is_built_for_its_side_effect() -> None:
    found = [f"{path}:{line}: {name}" for path, seen in looked_at() for line, name in seen.built]
    assert found == []


def test_no_module_changes_after_it_was_imported() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, seen in looked_at()
        if path != REGISTRY
        for line, name in seen.changed
        if f"{path}: {name}" not in CACHES
    ]
    assert found == []


@pytest.mark.parametrize(
    ("check", "source"),
    [
        ("foreign", "def f(runtime):\n    runtime.audit = 1"),
        ("foreign", "def f(runtime):\n    runtime.a.b, c = 1, 2"),
        ("foreign", "def f(runtime):\n    runtime.count += 1"),
        ("entered", "def f(self, broker):\n    broker.observers.append(self)"),
        ("entered", "def f(self, broker):\n    broker.appeared.append(self._look)"),
        ("entered", "def f(self, peer):\n    peer.ended.append(lambda: self._forget(peer))"),
        ("built", "Audit(1)"),
        ("built", "edge._Audit(1)"),
        ("changed", "_ends: list[int] = []\ndef f():\n    _ends.append(1)"),
        ("changed", "_known = {}\nasync def f():\n    _known['a'] = 1"),
        ("changed", "one = None\ndef f():\n    global one\n    one = 1"),
    ],
)
def test_the_checks_see_what_they_are_for(check: str, source: str) -> None:
    assert getattr(look(source), check)
