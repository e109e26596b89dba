"""What many rules cost: a right's check, a subscribe, the full set, and windows that open at the same moment."""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from websockets.sync.client import ClientConnection, connect

from fastpath.client.control.client import Control
from fastpath.core.auth.rules import Rule, RuleSet

from ..machine.procfs import memory_bytes
from ..servers.fastpath_server import GENERATION, RULES, MeasuredServer, sidecar

FEW = 10
CHUNK = 1000
"""Rules in one frame of the control socket (protocol.md 8.1)."""

CHECKS = 20_000
SUBSCRIBES = 3_000
USERS, GROUPS, OWN_GROUPS, SUBJECTS = 20_000, 500, 20, 5_000
HOLDERS = ("user:7", *(f"group:{number}" for number in range(OWN_GROUPS)), "everyone")
USER = "u7"
SEED = 20260101

Make = Callable[[int, random.Random], tuple[str, str]]
"""The holder and the pattern of a rule, by its number."""


def _subject(number: int) -> str:
    return f"/stocks/r{number % 50}/s{number}"


def _mixed(number: int, chance: random.Random) -> tuple[str, str]:
    """Draw users, groups and everyone; subjects alone, one level, all below, and a wildcard in the middle."""
    draw = chance.random()
    if draw < 0.6:
        who = f"user:{chance.randrange(USERS)}"
    else:
        who = f"group:{chance.randrange(GROUPS)}" if draw < 0.95 else "everyone"
    subject = _subject(chance.randrange(SUBJECTS))
    region, symbol = subject.split("/")[2:]
    forms = (subject, subject, f"/stocks/{region}/*", f"/stocks/*/{symbol}", f"/stocks/{region}/**", "/*/*/" + symbol)
    return who, chance.choice(forms)


def _everyone(number: int, chance: random.Random) -> tuple[str, str]:
    """Draw rules that are all about everyone: one tree holds them all."""
    del chance
    return "everyone", _subject(number)


def _wildcards(number: int, chance: random.Random) -> tuple[str, str]:
    """Draw rules of one holder, wildcards at every level of deep patterns: most places to look at for one subject."""
    del number
    segments = [chance.choice(("*", f"l{level}", f"x{chance.randrange(40)}")) for level in range(8)]
    return "everyone", "/stocks/" + "/".join(segments)


def _same(number: int, chance: random.Random) -> tuple[str, str]:
    """Draw one pattern for all users: each has a rule of its own."""
    del chance
    return f"user:{number}", "/stocks/*/**"


SHAPES: dict[str, tuple[Make, Callable[[random.Random], str]]] = {
    "mixed": (_mixed, lambda chance: _subject(chance.randrange(SUBJECTS))),
    "all about everyone": (_everyone, lambda chance: _subject(chance.randrange(100_000))),
    "a rule for each user": (_same, lambda chance: _subject(chance.randrange(SUBJECTS))),
    "wildcards 8 deep": (_wildcards, lambda _: "/stocks/" + "/".join(f"l{level}" for level in range(8))),
}


@dataclass(frozen=True)
class Checked:
    """Microseconds of one check: the median and the 99th of 100, with few rules and with many."""

    shape: str
    few: tuple[float, float]
    many: tuple[float, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument("--rules", type=int, default=100_000, help="how many rules (default: %(default)s)")
    parser.add_argument("--core", type=int, help="pin the sidecar to this core")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; return the exit status."""
    count = arguments.rules
    print(f"| one check of a right, µs (p50 / p99) | {FEW} rules | {count:,} rules |\n|---|---|---|")
    for shape in SHAPES:
        found = check(shape, count)
        print(f"| {shape} | {_pair(found.few)} | {_pair(found.many)} |")
    print(f"\n| a real sidecar | {FEW} rules | {count:,} rules |\n|---|---|---|")
    few, many = serve(FEW, arguments.core), serve(count, arguments.core)
    for name in few:
        print(f"| {name} | {few[name]:,.1f} | {many[name]:,.1f} |")
    return 0


def _pair(times: tuple[float, float]) -> str:
    return f"{times[0]:.1f} / {times[1]:.1f}"


def records(shape: str, count: int) -> list[dict[str, Any]]:
    """Return so many rules as Django sends them (protocol.md 8.2); the same ones each time."""
    make, chance = SHAPES[shape][0], random.Random(SEED)  # noqa: S311 - repeatable, no secret
    found = []
    for number in range(count):
        who, pattern = make(number, chance)
        allow, action = chance.random() < 0.7, chance.choice(("subscribe", "both"))
        found.append({"id": number + 100, "who": who, "pattern": pattern, "action": action, "allow": allow})
    return found


def check(shape: str, count: int) -> Checked:
    """Time the checks of one shape, with few rules and with many."""
    few, many = (_checks(shape, number) for number in (FEW, count))
    return Checked(shape, few, many)


def _checks(shape: str, count: int) -> tuple[float, float]:
    rules = RuleSet()
    for record in records(shape, count):
        rules.put(Rule(**record))
    subject, chance = SHAPES[shape][1], random.Random(SEED)  # noqa: S311 - repeatable, no secret
    subjects = [subject(chance) for _ in range(CHECKS)]
    times = []
    for one in subjects:
        begin = time.perf_counter_ns()
        rules.decide(HOLDERS, USER, one, "subscribe", 0)
        times.append(time.perf_counter_ns() - begin)
    times.sort()
    return times[CHECKS // 2] / 1000, times[CHECKS * 99 // 100] / 1000


def serve(count: int, core: int | None = None) -> dict[str, float]:
    """Run a sidecar with so many mixed rules; return what it takes to send them, to subscribe, and to open a window for
    all."""
    rules = [*RULES, *records("mixed", count)]
    with sidecar(core) as server, Control(server.control, timeout_seconds=60) as control:
        pid = server.pids[-1]
        empty = memory_bytes([pid])
        with _pinging(server) as load_pongs:
            took = _send(control, rules, GENERATION + 1)
        full = memory_bytes([pid])
        subscribe, slow = _subscribes(server)
        opens = int(time.time() * 1000) + 1000 + count // 20
        timed = [rule | {"start": opens} for rule in rules[len(RULES) :]]
        _send(control, [*RULES, *timed], GENERATION + 2)
        with _pinging(server) as window_pongs:
            time.sleep(max(0.0, opens / 1000 - time.time()) + 1)
    return {
        "full set sent and in force, ms": took * 1000,
        "longest answer to a ping meanwhile, ms": max(load_pongs),
        "memory of the rules, MB": (full - empty) / 1e6,
        "subscribe, answer, unsubscribe, answer, µs, p50": subscribe,
        "the same, p99": slow,
        "longest answer to a ping while the windows of all rules open, ms": max(window_pongs),
    }


def _send(control: Control, rules: list[dict[str, Any]], generation: int) -> float:
    begin = time.monotonic()
    control.rules_begin(generation)
    for start in range(0, len(rules), CHUNK):
        control.rules_chunk(rules[start : start + CHUNK])
    control.rules_commit(generation)
    return time.monotonic() - begin


def _ask(socket: ClientConnection, command: dict[str, Any]) -> None:
    """Send, and wait for the answer with the command's id."""
    socket.send(json.dumps(command))
    while True:
        frame = json.loads(socket.recv(timeout=30))
        if isinstance(frame, dict) and frame.get("id") == command["id"]:
            return


def _subscribes(server: MeasuredServer) -> tuple[float, float]:
    """Subscribe to one subject after the other, and time each."""
    times = []
    with _client(server) as socket:
        for number in range(SUBSCRIBES):
            subject = _subject(number)
            begin = time.perf_counter_ns()
            _ask(socket, {"op": "subscribe", "id": 2 * number + 2, "subjects": [subject]})
            _ask(socket, {"op": "unsubscribe", "id": 2 * number + 3, "subjects": [subject]})
            times.append(time.perf_counter_ns() - begin)
    times.sort()
    return times[SUBSCRIBES // 2] / 1000, times[SUBSCRIBES * 99 // 100] / 1000


@contextmanager
def _client(server: MeasuredServer) -> Iterator[ClientConnection]:
    with connect(f"ws://{server.host}:{server.port}/ws", compression=None) as socket:
        _ask(socket, {"op": "connect", "id": 1, "token": server.token(7)})
        yield socket


@contextmanager
def _pinging(server: MeasuredServer) -> Iterator[list[float]]:
    """Have another client ask ``ping`` again and again; yield how long each answer took, in ms."""
    pongs: list[float] = []
    stop = threading.Event()

    def ping() -> None:
        with _client(server) as socket:
            number = 2
            while True:
                begin = time.perf_counter()
                _ask(socket, {"op": "ping", "id": number})
                pongs.append((time.perf_counter() - begin) * 1000)
                if stop.wait(0.002):
                    return
                number += 1

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield pongs
    finally:
        stop.set()
        thread.join()
