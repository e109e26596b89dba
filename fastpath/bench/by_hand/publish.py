"""`publish`: simulated publishers for a server that runs, at a rate or as fast as it acknowledges."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from fastpath.recording.replay import speed

from ..load.dialects import Fastpath
from ..load.latency import Histogram
from ..load.payload import Payloads, check_size
from ..load.publishing import Outlet, PortOutlet
from ..load.sockets import BenchError, Sockets
from ..load.swarm import Swarm
from ..load.team import STOP, Post, Team
from .recorded import Feed
from .subscribe import say, sockets_of

DESCRIPTION = """\
Publishes to a running server: through the publisher port in batches, each acknowledged, or with a ws:// address as a
client does. Each subject belongs to one connection, so that its messages are numbered without a gap; `subscribe` checks
that. With --recording the messages are those of a recording, with its subjects and times: once, or with --duration
again and again. Ctrl-C ends it with the summary."""

EXAMPLES = """\
examples:
  python -m fastpath.bench publish --url 127.0.0.1:8801 --subjects '/s/s{n:03d}' --count 100 --rate 1000
  python -m fastpath.bench publish --token "$TOKEN" --rate 0 --size 300 --duration 10
  python -m fastpath.bench publish --url ws://127.0.0.1:8800/ws --connections 50 --count 50 --rate 500 --ramp 10
  python -m fastpath.bench publish --recording day.jsonl.gz --speed 20 --connections 4 --duration 60"""

PUBLISHED, ENDED, P50_US, P99_US, SLOTS = range(5)
BATCH_MAX = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server, the publishers, the messages."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--url", default="127.0.0.1:8801", help="HOST:PORT of the publisher port, or ws://… (%(default)s)"
    )
    parser.add_argument("--token", default="", help="the publisher's token")
    parser.add_argument("--subjects", default="/s/s{n:03d}", help="with {n} for the number (default %(default)s)")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="number of subjects: {n} from 0 (default 1)")
    parser.add_argument("--connections", type=int, default=1, metavar="N", help="publishers (default 1)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument(
        "--rate", type=float, default=100, metavar="N", help="messages a second in all; 0: no limit (100)"
    )
    parser.add_argument("--ramp", type=float, default=0, metavar="S", help="seconds until the full rate (default 0)")
    parser.add_argument("--size", type=int, default=140, metavar="BYTES", help="of the content (default 140)")
    parser.add_argument("--fields", type=int, default=0, metavar="N", help="fields of each message (default 0)")
    parser.add_argument("--recording", default="", metavar="FILE", help="publish these: docs/develop/recording.md")
    parser.add_argument("--speed", type=speed, default=1, metavar="N", help="of the recording: 1, 0.5, 10, max (1)")
    parser.add_argument("--prefix", default="", metavar="SUBJECT", help="in front of the recording's subjects")
    parser.add_argument("--duration", type=float, default=0, metavar="S", help="seconds (default: until Ctrl-C)")
    parser.add_argument("--insecure", action="store_true", help="take any certificate")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Publish until it is over, and say what was acknowledged."""
    connections = arguments.connections
    if not 1 <= arguments.processes <= connections or not (arguments.recording or connections <= arguments.count):
        raise BenchError(
            "each process needs a connection and each connection a subject: --processes, --connections, --count"
        )
    check_size(arguments.size)
    team = Team(arguments.processes, SLOTS)
    begin = shown_at = time.monotonic()
    shown = 0
    team.start(lambda post: _publish(arguments, post))
    try:
        while (not arguments.duration or time.monotonic() - begin < arguments.duration) and team.running:
            if team.total(ENDED) == arguments.processes:
                break
            time.sleep(0.05)
            moment = time.monotonic()
            if moment - shown_at >= 1:
                count = team.total(PUBLISHED)
                p50, p99 = (max(team.values(slot)) / 1000 for slot in (P50_US, P99_US))
                rate = (count - shown) / (moment - shown_at)
                line = f"published/s {rate:,.0f}  acknowledged p50 {p50:.1f} ms  p99 {p99:.1f} ms"
                sys.stderr.write(f"\r{line:<80}" if sys.stderr.isatty() else line + "\n")
                sys.stderr.flush()
                shown, shown_at = count, moment
    except KeyboardInterrupt:
        pass
    seconds = time.monotonic() - begin
    latency = Histogram()
    published, acknowledged = 0, 0
    for found in team.collect():
        latency.merge(found["latency"]["items"], found["latency"]["max_us"])
        published += found["published"]
        acknowledged += found["acknowledged"]
    result: dict[str, object] = {
        "connections": connections,
        "subjects": arguments.recording or arguments.count,
        "duration_s": round(seconds, 1),
        "published": published,
        "published_per_s": round(published / seconds, 1),
    }
    if not arguments.url.startswith("ws"):
        result |= {"acknowledged": acknowledged, **latency.summary()}
    return say(result, arguments.json)


Step = Callable[[float], tuple[int, float]]
"""Publishes what is due at a moment: how many messages that were, and how long there is nothing to do, in seconds."""


def _publish(arguments: argparse.Namespace, post: Post) -> dict[str, Any]:
    """One process with its share of the connections."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    mine = range(post.number, arguments.connections, arguments.processes)
    fields = {f"f{number}": f"{number}.0" for number in range(arguments.fields)}
    dialect = Fastpath("json", lambda _: arguments.token, arguments.subjects, fields=fields, path=_path(arguments.url))
    loop = Swarm(dialect, Sockets("127.0.0.1", 0), [])
    outlets = {number: _outlet(loop, dialect, arguments, number) for number in mine}
    step = _recorded(arguments, outlets, post) if arguments.recording else _made_up(arguments, outlets, dialect)
    published, latency = 0, Histogram()
    while post.wanted != STOP:
        moment = time.monotonic()
        count, wait = step(moment)
        published += count
        for outlet in outlets.values():
            outlet.flush()
        loop.poll(wait)
        post.tell(PUBLISHED, published)
        _tell_latency(outlets[post.number], post, moment)
    _drain(loop, list(outlets.values()))
    ports = [outlet for outlet in outlets.values() if isinstance(outlet, PortOutlet)]
    for outlet in ports:
        found = outlet.latency.as_json()
        latency.merge(found["items"], found["max_us"])
    acknowledged = sum(outlet.acknowledged for outlet in ports)
    return {"latency": latency.as_json(), "published": published, "acknowledged": acknowledged}


def _made_up(arguments: argparse.Namespace, outlets: dict[int, Outlet], dialect: Fastpath) -> Step:
    """The connections' subjects in turn, each at its share of the rate."""
    order = [
        (outlet, subject)
        for number, outlet in outlets.items()
        for subject in range(number, arguments.count, arguments.connections)
    ]
    payloads = Payloads(arguments.size, arguments.count, f"{time.time_ns() // 1_000_000:x}")
    names = [dialect.subject(index) for index in range(arguments.count)]
    share = arguments.rate * len(order) / arguments.count
    at, due, begin = 0, 0.0, time.monotonic()
    last = begin

    def step(moment: float) -> tuple[int, float]:
        nonlocal at, due, last
        if share:
            due += (moment - last) * share * (min(1.0, (moment - begin) / arguments.ramp) if arguments.ramp else 1.0)
        else:
            due = BATCH_MAX
        last = moment
        count = 0
        batches: dict[Outlet, list[tuple[str, bytes]]] = {}
        while due >= 1 and order[at][0].room:
            outlet, subject = order[at]
            batches.setdefault(outlet, []).append((names[subject], payloads.make(subject, time.monotonic_ns())))
            at = (at + 1) % len(order)
            due -= 1
            count += 1
        for outlet, items in batches.items():
            outlet.publish(items)
        return count, 0.001 if not share else min(0.05, max(0.001, (1 - due) / share))

    return step


def _recorded(arguments: argparse.Namespace, outlets: dict[int, Outlet], post: Post) -> Step:
    """A recording's messages; without a duration the process says when it has been through."""
    feed = Feed(
        arguments.recording, arguments.prefix, arguments.connections, outlets, arguments.speed,
        again=bool(arguments.duration),
    )  # fmt: skip

    def step(moment: float) -> tuple[int, float]:
        count = feed.publish(moment)
        due = feed.due(moment)
        post.tell(ENDED, due is None)
        return count, min(0.05, max(0.001, due)) if due is not None else 0.05

    return step


def _outlet(loop: Swarm, dialect: Fastpath, arguments: argparse.Namespace, number: int) -> Outlet:
    if arguments.url.startswith("ws"):
        return Outlet(loop, dialect, sockets_of(arguments.url, arguments.insecure), number, [number])
    url = urlsplit("//" + arguments.url)
    if not url.hostname or not url.port:
        raise BenchError(f"{arguments.url!r}: HOST:PORT of the publisher port, or ws://HOST:PORT/ws")
    host = "127.0.0.1" if url.hostname == "localhost" else url.hostname
    return PortOutlet(loop, dialect, Sockets(host, url.port), number, arguments.token)


def _path(url: str) -> str:
    return (urlsplit(url).path if url.startswith("ws") else "") or "/ws"


def _tell_latency(first: Outlet, post: Post, moment: float) -> None:
    """The first connection's, about once a second."""
    if isinstance(first, PortOutlet) and moment - post.told >= 1:
        post.told = moment
        found = first.latency.summary()
        post.tell(P50_US, int(1000 * (found["p50_ms"] or 0)))
        post.tell(P99_US, int(1000 * (found["p99_ms"] or 0)))


def _drain(loop: Swarm, outlets: list[Outlet]) -> None:
    """What was published is written and acknowledged, or five seconds have passed."""
    end = time.monotonic() + 5
    while not all(outlet.quiet for outlet in outlets) and time.monotonic() < end:
        for outlet in outlets:
            outlet.flush()
        loop.poll(0.02)
