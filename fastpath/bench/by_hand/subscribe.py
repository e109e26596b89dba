"""`subscribe`: simulated clients of a server that runs, from one to as many as the machine's memory allows."""

from __future__ import annotations

import argparse
import json
import math
import random
import ssl
import sys
import time
from urllib.parse import urlsplit

from ..load.crew import GAPS, P50_US, P99_US, Crew, processes_for
from ..load.dialects import Fastpath
from ..load.sockets import BenchError, Sockets, TlsSockets
from ..load.swarm import Swarm
from ..machine.processes import open_files_most

DESCRIPTION = """\
Connects clients to a running server, subscribes, and counts what comes. Every connection is read in full, or one in
--sample; then the others are counted by the marker that `publish` puts in its messages. Latencies of such messages are
from when they were due to when they were read, by the monotonic clock of this machine; of other messages, from the
server's time of them by this machine's clock. Ctrl-C ends it with the summary."""

EXAMPLES = """\
examples:
  python -m fastpath.bench subscribe --connections 1000 --subjects '/s/s{n:03d}'
  python -m fastpath.bench subscribe --url wss://push.example.com/ws --token "$TOKEN" --subjects /stocks/us/IBM
  python -m fastpath.bench subscribe --connections 50000 --processes 3 --ramp 2000 --sample 20
  python -m fastpath.bench subscribe --connections 5000 --count 1000 --each 20 --stall 5:10 --storm 30:60"""

BEHAVIOUR_AFTER_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server, the clients, what they do."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--url", default="ws://127.0.0.1:8800/ws", help="of the server (default %(default)s)")
    parser.add_argument("--token", default="", help="one token for all connections; without it they are anonymous")
    parser.add_argument("--subjects", default="/s/s{n:03d}", help="with {n} for the number (default %(default)s)")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="number of subjects: {n} from 0 (default 1)")
    parser.add_argument("--each", type=int, default=1, metavar="N", help="subjects of each connection (default 1)")
    parser.add_argument("--connections", type=int, default=100, metavar="N", help="clients (default 100)")
    parser.add_argument("--processes", type=int, default=0, metavar="N", help="default: as many as open files demand")
    parser.add_argument("--ramp", type=float, default=0, metavar="N", help="connections a second (default: no limit)")
    parser.add_argument("--duration", type=float, default=0, metavar="S", help="seconds (default: until Ctrl-C)")
    parser.add_argument("--form", choices=("json", "msgpack"), default="json", help="default json")
    parser.add_argument("--history", type=int, default=0, metavar="N", help="ask for cached messages")
    parser.add_argument("--conflation", type=int, default=0, metavar="MS", help="ask for conflation")
    parser.add_argument("--slow", choices=("close", "conflate"), default="", help="what to do with who lags")
    parser.add_argument(
        "--sample", type=int, default=1, metavar="N", help="read one connection in N in full (default 1)"
    )
    parser.add_argument("--stall", default="", metavar="PERCENT:S", help="so many stop reading for so long, once")
    parser.add_argument(
        "--storm", default="", metavar="PERCENT:S", help="so many are cut, every so many seconds, and resume"
    )
    parser.add_argument("--insecure", action="store_true", help="take any certificate")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Connect, count until it is over, and say what came; 1 if messages were missing, doubled or out of order."""
    open_files_most()
    behaviour = Behaviour(_pair(arguments.stall), _pair(arguments.storm))
    plan = subjects_of(arguments.connections, arguments.count, arguments.each)
    options: dict[str, int | str] = {
        name: value for name in ("history", "conflation", "slow") if (value := getattr(arguments, name))
    }
    url = urlsplit(arguments.url)
    dialect = Fastpath(arguments.form, lambda _: arguments.token, arguments.subjects, options, path=url.path or "/ws")
    crew = Crew(
        dialect, sockets_of(arguments.url, arguments.insecure), plan,
        processes=arguments.processes or processes_for(arguments.connections), sample_every=arguments.sample,
        behaviour=behaviour, tracked_every=behaviour.every,
    )  # fmt: skip
    screen = Screen(crew)
    crew.tally.measuring = True
    begin = time.monotonic()
    try:
        crew.connect(arguments.ramp, lambda _: screen.show())
        begin = time.monotonic()
        while not arguments.duration or time.monotonic() - begin < arguments.duration:
            crew.poll(0.1)
            screen.show()
    except KeyboardInterrupt:
        pass
    finally:
        screen.end()
        connected = crew.active
        try:
            crew.collect()
        finally:
            crew.close()
    return say(summary(crew, connected, time.monotonic() - begin), arguments.json)


def subjects_of(connections: int, count: int, each: int) -> list[list[int]]:
    """Connection i has subject i and on, modulo their number; with more than one each, its own random choice."""
    if not 1 <= each <= count:
        raise BenchError(f"--each {each} of --count {count} subjects")
    if each == 1:
        return [[i % count] for i in range(connections)]
    chance = random.Random(1)  # noqa: S311 - the same in every run, not a secret
    return [chance.sample(range(count), each) for _ in range(connections)]


def sockets_of(address: str, insecure: bool) -> Sockets:
    """Return the sockets for a ws:// or wss:// address; raises BenchError for another."""
    url = urlsplit(address)
    if url.scheme not in ("ws", "wss") or not url.hostname:
        raise BenchError(f"{address!r}: an address is like ws://127.0.0.1:8800/ws or wss://push.example.com/ws")
    host = "127.0.0.1" if url.hostname == "localhost" else url.hostname
    if url.scheme == "ws":
        return Sockets(host, url.port or 80)
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return TlsSockets(host, url.port or 443, context, url.hostname)


class Behaviour:
    """Stalls and storms: every so-many-th connection stops reading for a time, or is cut and comes back."""

    def __init__(self, stall: tuple[float, float] | None, storm: tuple[float, float] | None) -> None:
        self.stall = stall
        self.storm = storm
        percents = [pair[0] for pair in (stall, storm) if pair]
        self.every = max(1, math.floor(100 / max(percents))) if percents else 0
        """One connection in so many does it, and is read in full; 0 for none."""
        self._stalled: list[int] | None = None
        self._storms = 0

    def __call__(self, swarm: Swarm, seconds: float) -> None:
        if self.storm and seconds > BEHAVIOUR_AFTER_S + self._storms * self.storm[1]:
            self._storms += 1
            swarm.drop(range(0, len(swarm.plan), max(1, math.floor(100 / self.storm[0]))))
        if self.stall and self._stalled is None and seconds > BEHAVIOUR_AFTER_S:
            every = max(1, math.floor(100 / self.stall[0]))
            self._stalled = [index for index in range(0, len(swarm.plan), every) if index in swarm.settled_indexes]
            swarm.pause(self._stalled)
        if self.stall and self._stalled and seconds > BEHAVIOUR_AFTER_S + self.stall[1]:
            swarm.resume([index for index in self._stalled if index in swarm.fds])
            self._stalled = []
        if self.every and len(swarm.fds) < len(swarm.plan) and swarm.opening < 200:
            gone = [index for index in range(len(swarm.plan)) if index not in swarm.fds]
            swarm.come_back(gone[:200])


class Screen:
    """One line on the standard error, each second."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._at = time.monotonic()
        self._delivered = 0
        self._shown = False

    def show(self) -> None:
        """Write the line if a second has passed."""
        moment = time.monotonic()
        if moment - self._at < 1:
            return
        crew = self._crew
        rate = (crew.delivered - self._delivered) / (moment - self._at)
        self._at, self._delivered, self._shown = moment, crew.delivered, True
        p50, p99 = (max(crew.team.values(slot)) / 1000 for slot in (P50_US, P99_US))
        line = (
            f"connected {crew.active:,}/{len(crew.plan):,}  deliveries/s {rate:,.0f}  "
            f"p50 {p50:.1f} ms  p99 {p99:.1f} ms  missing {crew.team.total(GAPS):,}  closed {crew.closed:,}"
        )
        sys.stderr.write(f"\r{line:<100}" if sys.stderr.isatty() else line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\n")


def summary(crew: Crew, connected: int, seconds: float) -> dict[str, object]:
    """What came, by name."""
    tally = crew.tally
    return {
        "connections": connected,
        "closed": crew.closed,
        "duration_s": round(seconds, 1),
        "deliveries": crew.delivered,
        "deliveries_per_s": round(crew.delivered / seconds, 1) if seconds else 0,
        **tally.latency.summary(),
        "sampled_connections": crew.sampled_count,
        "lost": tally.gaps,
        "doubled": tally.doubled,
        "reordered": tally.reordered,
        "announced": tally.announced,
        "recoveries": tally.recoveries,
        "notices": tally.notices,
    }


def say(found: dict[str, object], as_json: bool) -> int:
    """Print a summary; 1 if messages were lost, doubled or out of order."""
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name.replace('_', ' '):<22}{f'{value:,}' if isinstance(value, int | float) else value or '–'}")
    return int(any(found.get(key) for key in ("lost", "doubled", "reordered")))


def _pair(text: str) -> tuple[float, float] | None:
    """``5:10`` as percent and seconds."""
    if not text:
        return None
    try:
        percent, seconds = map(float, text.split(":"))
        if not 0 < percent <= 100 or seconds <= 0:
            raise ValueError(text)
    except ValueError:
        raise BenchError(f"{text!r}: PERCENT:SECONDS, such as 5:10") from None
    return percent, seconds
