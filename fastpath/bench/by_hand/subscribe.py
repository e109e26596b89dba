"""`subscribe`: clients of a server that runs, by the Python client; what comes is counted and checked."""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from contextlib import AsyncExitStack

from fastpath.client import connect
from fastpath.client.message import Message, Status
from fastpath.client.subscriber.streams import MessageStream
from fastpath.recording.command_line import ProgressLine, say

from ..load import payload
from ..load.latency import LatencyHistogram
from ..machine.processes import open_files_most

DESCRIPTION = """\
Connects clients to a running server, subscribes each to a subject or a pattern, and reads and counts all that comes.
Latencies of what `publish` sends are from when it was sent to when it was read, by the monotonic clock of this machine;
of other messages, from the server's time of them by this machine's clock. Ctrl-C ends it with the summary."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the server, the clients, what they read."""
    parser.description = DESCRIPTION
    parser.add_argument("--url", default="ws://127.0.0.1:8800/ws", help="of the server (default %(default)s)")
    parser.add_argument("--token", default="", help="one token for all connections; without it they are anonymous")
    parser.add_argument("--subjects", default="/s/s{n:03d}", help="with {n} for the number (default %(default)s)")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="number of subjects: {n} from 0 (default 1)")
    parser.add_argument("--connections", type=int, default=100, metavar="N", help="clients (default 100)")
    parser.add_argument("--duration", type=float, metavar="S", help="seconds (default: until Ctrl-C)")
    parser.add_argument("--history", type=int, default=0, metavar="N", help="ask for cached messages")
    parser.add_argument("--conflation", type=int, default=0, metavar="MS", help="ask for conflation")
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Read until the time is over, and say what came; return 1 if messages were missing, doubled or out of order."""
    open_files_most()
    seen = Seen(arguments.conflation > 0)
    begin = time.monotonic()
    asyncio.run(_read(arguments, seen))
    seconds = time.monotonic() - begin
    told = {"connections": arguments.connections, "duration_s": round(seconds, 1), "deliveries": seen.deliveries}
    faults = {"lost": seen.lost, "doubled": seen.doubled, "reordered": seen.reordered}
    say(told | seen.latency.summary() | faults | {"disconnected": seen.disconnected}, arguments.json)
    return int(any(faults.values()))


class Seen:
    """The messages that all clients have read."""

    def __init__(self, merged: bool) -> None:
        self.latency = LatencyHistogram()
        self.deliveries = self.lost = self.doubled = self.reordered = self.disconnected = 0
        self._merged = merged
        self._last: dict[tuple[int, str], tuple[int, int]] = {}

    def told(self, status: Status) -> None:
        """Count a lost connection, which the client then resumes."""
        self.disconnected += status.name == "disconnected"

    def message(self, client: int, message: Message) -> None:
        """Count a message of a client, by its number and its time."""
        self.deliveries += 1
        if message.kind == "update":
            content = message.content.encode() if isinstance(message.content, str) else message.content
            try:
                self.latency.add((time.monotonic_ns() - payload.read(content)[0]) // 1000)
            except ValueError:
                self.latency.add(time.time_ns() // 1000 - message.time * 1000)
        if message.seq:
            now, before = (message.epoch, message.seq), self._last.get((client, message.subject))
            self._last[client, message.subject] = now
            if before is not None and now[0] == before[0]:
                self.doubled += now == before
                self.reordered += now < before
                self.lost += 0 if self._merged else max(0, now[1] - before[1] - 1)


async def _read(arguments: argparse.Namespace, seen: Seen) -> None:
    stop, progress = asyncio.Event(), ProgressLine(quiet=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        tasks = []
        for index in range(arguments.connections):
            client = connect(arguments.url, arguments.token or None, on_status=seen.told)
            await stack.enter_async_context(client)
            subject = arguments.subjects.format(n=index % arguments.count)
            stream = client.subscribe(subject, history=arguments.history, conflation=arguments.conflation)
            tasks.append(asyncio.create_task(_follow(index, stream, seen)))
        waiting = [*tasks, asyncio.create_task(stop.wait()), asyncio.create_task(_show(progress, seen))]
        done, rest = await asyncio.wait(waiting, timeout=arguments.duration, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        for task in done:
            task.result()


async def _follow(index: int, stream: MessageStream, seen: Seen) -> None:
    async for message in stream:
        seen.message(index, message)


async def _show(progress: ProgressLine, seen: Seen) -> None:
    while True:
        progress.show(lambda: f"{seen.deliveries:,} deliveries")
        await asyncio.sleep(0.5)
