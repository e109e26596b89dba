"""`publish`: publishers for a server that runs, by the Python client, at a rate or as fast as it acknowledges."""

from __future__ import annotations

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from fastpath.client.publisher.publisher import Publisher
from fastpath.recording.command_line import say, stopping

from ..load.latency import LatencyHistogram
from ..load.payload import Payloads, check_size
from ..load.sockets import BenchError

DESCRIPTION = """\
Publishes to the publisher port of a running server, in batches, each acknowledged before the next of its connection.
Each subject belongs to one connection, so that its messages are numbered without a gap; `subscribe` checks that. A
recording is published by `python -m fastpath.recording replay`. Ctrl-C ends it with the summary."""

BATCH_MAX = 500
TURN_SECONDS = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the server, the publishers, the messages."""
    parser.description = DESCRIPTION
    parser.add_argument("--url", default="127.0.0.1:8801", help="HOST:PORT of the publisher port (%(default)s)")
    parser.add_argument("--token", default="", help="the publisher's token")
    parser.add_argument("--subjects", default="/s/s{n:03d}", help="with {n} for the number (default %(default)s)")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="number of subjects: {n} from 0 (default 1)")
    parser.add_argument("--connections", type=int, default=1, metavar="N", help="publishers (default 1)")
    parser.add_argument(
        "--rate", type=float, default=100, metavar="N", help="messages a second in all; 0: no limit (100)"
    )
    parser.add_argument("--size", type=int, default=140, metavar="BYTES", help="of the content (default 140)")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds (default: until Ctrl-C)")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Publish until the time is over, and say what was acknowledged."""
    if not 1 <= arguments.connections <= arguments.count:
        raise BenchError("each connection needs a subject: --connections, --count")
    check_size(arguments.size)
    stop, latency, begin = threading.Event(), LatencyHistogram(), time.monotonic()
    with ThreadPoolExecutor(arguments.connections) as threads, stopping(stop.set):
        work = [threads.submit(_publish, arguments, number, stop) for number in range(arguments.connections)]
        while not all(one.done() for one in work) and not stop.wait(0.1):
            if arguments.duration and time.monotonic() - begin >= arguments.duration:
                stop.set()
        stop.set()
    seconds, published = time.monotonic() - begin, 0
    for count, one in (done.result() for done in work):
        published += count
        latency.merge(one.items(), one.max_us)
    told = {"connections": arguments.connections, "subjects": arguments.count, "duration_s": round(seconds, 1)}
    told |= {"acknowledged": published, "acknowledged_per_s": round(published / seconds, 1)}
    say(told | latency.summary(), arguments.json)
    return 0


def _publish(arguments: argparse.Namespace, number: int, stop: threading.Event) -> tuple[int, LatencyHistogram]:
    """Publish on one connection, its subjects in turn, at its share of the rate; return how many messages, and their
    latencies."""
    mine = range(number, arguments.count, arguments.connections)
    payloads = Payloads(arguments.size, arguments.count, f"{time.time_ns() // 1_000_000:x}")
    names = {subject: arguments.subjects.format(n=subject) for subject in mine}
    share, latency, sent, begin = arguments.rate * len(mine) / arguments.count, LatencyHistogram(), 0, time.monotonic()
    with Publisher(arguments.url, arguments.token or None, retry_seconds=0) as publisher:
        while not stop.is_set():
            due = int((time.monotonic() - begin) * share) - sent if share else BATCH_MAX
            moment, rows = time.monotonic_ns(), []
            for at in range(sent, sent + min(due, BATCH_MAX)):
                subject = mine[at % len(mine)]
                rows.append([names[subject], payloads.make(subject, moment)])
            if not rows:
                stop.wait(TURN_SECONDS)
                continue
            publisher.send_batch(rows)
            publisher.flush()
            latency.merge([((time.monotonic_ns() - moment) // 1000, len(rows))])
            sent += len(rows)
    return sent, latency
