"""`record`: what chosen subjects say, into a file, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio

from fastpath.client import connect
from fastpath.client.options import OptionNames
from fastpath.client.subscriber.client import Client

from .command_line import ProgressLine, add_token_arguments, count, length, size, stopping, token
from .lines import VERSION, Header, RecordingError, public_address
from .outlets import Interruption, tls_of
from .recorder import Clock, Recorder
from .writing import ReaderGone, RecordingParts

DESCRIPTION = """\
Subscribes as any client does, and writes each message with the time of its arrival as a line of JSON. When the
connection is lost it comes back and goes on without a gap, as far as the server has what was missed; what is missing is
said in the file. Ctrl-C, SIGTERM or SIGHUP ends it in order."""

SOON: OptionNames = {"quick_retries": 5, "quick_seconds": 0.5, "backoff_seconds": 3, "backoff_seconds_max": 20}
"""A recorder is no crowd: it is back before what it missed leaves the server's cache."""

TIDY_SECONDS = 1
"""Seconds that what is cancelled may take to end."""

EXAMPLES = """\
examples:
  python -m fastpath.recording record '/stocks/**' --output day.jsonl.gz
  python -m fastpath.recording record /a/b /c/d --url wss://push.example.com/ws --token-file token --for 10min
  python -m fastpath.recording record '/stocks/**' --output day.jsonl.gz --seconds 1h --files 24
  python -m fastpath.recording record /a/b --output - | jq .content"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``record``: subjects, server and output."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("subjects", nargs="+", metavar="SUBJECT", help="subjects, and patterns such as '/stocks/**'")
    parser.add_argument("--output", required=True, metavar="FILE", help="packed if it ends in .gz; -: standard output")
    parser.add_argument(
        "--url", default="ws://127.0.0.1:8800/ws", help="of the server, several with commas (default %(default)s)"
    )
    add_token_arguments(parser)
    parser.add_argument("--for", dest="period", type=length, default=0, metavar="TIME", help="end after 90s, 10min, 6h")
    parser.add_argument("--bytes", type=size, default=0, metavar="N", help="another file after so many bytes: 100M")
    parser.add_argument("--seconds", type=length, default=0, metavar="TIME", help="another file after 90s, 10min, 6h")
    parser.add_argument("--files", type=count, default=0, metavar="N", help="keep the newest N of them (default: all)")
    parser.add_argument("--replace", action="store_true", help="the file may be there already, and is lost then")
    parser.add_argument("--history", type=count, default=0, metavar="N", help="begin with the newest N cached messages")
    parser.add_argument(
        "--conflation", type=count, default=0, metavar="MS", help="at most one message a subject per so many ms"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on the standard error")


def run(arguments: argparse.Namespace) -> int:
    """Record until it is over; return 0, or 1 where messages may be missing."""
    if arguments.files and not (arguments.bytes or arguments.seconds):
        raise RecordingError("--files counts the files that --bytes or --seconds make")
    progress = ProgressLine(arguments.quiet)
    clock = Clock()
    recorder = Recorder(clock, progress.say, live=arguments.output == "-")
    loop = asyncio.new_event_loop()
    try:
        with stopping(lambda: loop.call_soon_threadsafe(recorder.stop, "signal")):
            parts = loop.run_until_complete(_record(arguments, recorder, clock, progress))
    except ReaderGone:
        return 0
    except Interruption:
        raise RecordingError("told to stop, it could not end in order; what was written before can be read") from None
    finally:
        _tidy(loop)
    losses = f"; {recorder.losses} times messages may be missing" if recorder.losses else ""
    progress.say(f"{parts.messages:,} messages recorded in {parts.path}{losses}")
    return int(recorder.losses > 0)


async def _record(
    arguments: argparse.Namespace, recorder: Recorder, clock: Clock, progress: ProgressLine
) -> RecordingParts:
    url = arguments.url

    def header(part: int, at_us: int) -> Header:
        return Header(
            version=VERSION,
            part=part,
            at_us=at_us,
            server=public_address(url),
            subjects=arguments.subjects,
            history=arguments.history,
            conflation=arguments.conflation,
        )

    client = connect(
        url.split(","),
        token(arguments),
        on_status=recorder.noticed,
        tls=tls_of(arguments.ca) if "wss://" in url else None,
        **SOON,
    )
    began = clock()
    await _enter(client, recorder, url, arguments.period)
    if arguments.period:
        asyncio.get_running_loop().call_later(arguments.period, recorder.stop, "for")
    try:
        parts = RecordingParts(
            arguments.output, header, began, bytes_max=arguments.bytes, seconds_max=arguments.seconds,
            files_max=arguments.files, replace=arguments.replace,
        )  # fmt: skip
        try:
            stream = client.subscribe(arguments.subjects, history=arguments.history, conflation=arguments.conflation)
            words = f"recording {', '.join(arguments.subjects)} from {public_address(url)} in {parts.path}"
            recorder.begin(arguments.subjects, lambda: progress.say(words))
            await recorder.run(stream, parts, lambda: progress.show(lambda: progress_line(recorder, parts)))
        except (RecordingError, ReaderGone):
            parts.abandon()
            raise
        except BaseException:
            parts.close(clock(), "failed")
            raise
        parts.close(clock(), recorder.why)
    finally:
        await client.aclose()
    return parts


async def _enter(client: Client, recorder: Recorder, url: str, period: float) -> None:
    """Wait for the first connection; raise RecordingError when it takes longer than the period (in seconds; 0: none) or
    the recorder is stopped before, and ClientError."""
    entering = asyncio.create_task(client.__aenter__())
    tasks = (entering, asyncio.create_task(recorder.stopped()))
    try:
        await asyncio.wait(tasks, timeout=period or None, return_when=asyncio.FIRST_COMPLETED)
        if not entering.done():
            when = "told to stop" if recorder.why else "its time was over"
            raise RecordingError(f"{when} before {public_address(url)} had answered; nothing is recorded")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    entering.result()


def _tidy(loop: asyncio.AbstractEventLoop) -> None:
    """Leave nothing half done in the loop, also where a signal broke in."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=TIDY_SECONDS))
    loop.close()


def progress_line(recorder: Recorder, parts: RecordingParts) -> str:
    """Return the progress as a line: messages so far, file, and whether something is amiss."""
    state = "" if recorder.connected else "  not connected"
    if recorder.denied:
        state += f"  {len(recorder.denied)} denied"
    return f"{parts.messages:,} messages in {parts.path}{state}"
