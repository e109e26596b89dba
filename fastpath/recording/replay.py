"""`replay`: publishes a recording again, with its times, slower, faster, or as fast as it goes."""

from __future__ import annotations

import argparse
import time
from typing import Any

from fastpath.client.errors import ClientError
from fastpath.core.protocol.errors import InvalidSubject

from .command_line import (
    TOKEN,
    ProgressLine,
    add_token_arguments,
    count,
    length,
    moment,
    say,
    stopping,
    token,
)
from .lines import RecordingError, public_address
from .outlets import Interruption, Outlet, outlet
from .replayer import Choice, Replay, messages_of

DESCRIPTION = f"""\
Publishes the messages of recordings, one after the other, to any server: the publisher port, or a WebSocket. What is
not acknowledged is sent again after a lost connection, and stored once. The token is the environment's {TOKEN}:
`manage.py realtime_token USER` prints one. The status is 1 when anything was refused or not acknowledged."""

EXAMPLES = """\
examples:
  python -m fastpath.recording replay day.jsonl.gz
  python -m fastpath.recording replay day-*.jsonl.gz --url tls://push.example.com:8801 --speed 10
  python -m fastpath.recording replay day.jsonl.gz --url ws://127.0.0.1:8800/ws --prefix /replay --loop 0
  python -m fastpath.recording replay day.jsonl.gz --from +1h --until +1h30min --subject '/stocks/us/*' --speed max"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay``: files, target and speed."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="+", metavar="FILE", help="recordings in their order; -: the standard input")
    parser.add_argument(
        "--url", default="127.0.0.1:8801",
        help="HOST:PORT of the publisher port, tls://HOST:PORT, ws://… or wss://…; several with commas (%(default)s)",
    )  # fmt: skip
    add_token_arguments(parser)
    parser.add_argument("--speed", type=speed, default=1, metavar="N", help="1, 0.5, 10 or max (default 1)")
    parser.add_argument("--loop", type=count, default=1, metavar="N", help="how often; 0: until Ctrl-C (default 1)")
    parser.add_argument("--prefix", default="", metavar="SUBJECT", help="put in front of each subject: /replay")
    parser.add_argument(
        "--subject", action="append", default=[], metavar="PATTERN", help="only these; may be given several times"
    )
    parser.add_argument(
        "--from", dest="start", type=moment, metavar="TIME", help="2026-11-22T07:45 (UTC), or +5min after the beginning"
    )
    parser.add_argument("--until", dest="end", type=moment, metavar="TIME", help="as --from; not after it")
    parser.add_argument(
        "--by", choices=("time", "arrival"), default="time",
        help="the server's times of the messages, or those at which they reached the recorder (default time)",
    )  # fmt: skip
    parser.add_argument("--pause-max", type=length, default=0, metavar="TIME", help="cut longer silences to this")
    parser.add_argument("--no-snapshots", action="store_true", help="leave out the snapshots that came first")
    parser.add_argument(
        "--retry", type=length, default=60, metavar="TIME", help="how long a server may be away (default 60s)"
    )
    parser.add_argument("--json", action="store_true", help="the summary as one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on the standard error")


def speed(text: str) -> float:
    """Parse a speed for argparse, as a multiple of the recorded one; 0 for ``max``."""
    if text == "max":
        return 0
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no speed: 1, 0.5, 10 or max")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Replay; return 1 when not all was acknowledged."""
    if "-" in arguments.files and arguments.loop != 1:
        raise RecordingError("the standard input can be read once: --loop needs files")
    try:
        choice = Choice(
            arguments.prefix, tuple(arguments.subject), arguments.start, arguments.end, not arguments.no_snapshots
        )
        out = outlet(arguments.url, token(arguments), arguments.ca, arguments.retry)
    except (InvalidSubject, ValueError) as error:
        raise RecordingError(str(error)) from None
    replay = Replay(out, arguments.speed, arguments.by, int(arguments.pause_max * 1e6), arguments.loop)
    progress = ProgressLine(arguments.quiet)
    begin = time.monotonic()
    failure = ""
    connected = False

    def stop() -> None:
        replay.stop()
        if not connected:
            out.interrupt()

    try:
        with stopping(stop):
            out.connect()
            connected = True
            progress.say(f"replaying {', '.join(arguments.files)} to {public_address(arguments.url)}")
            shown = Shown(out, replay, begin)
            replay.run(
                lambda: messages_of(
                    arguments.files, choice, lambda path: progress.say(f"{path} was cut: it ends within a line"),
                    replay.idle,
                ),
                lambda: progress.show(shown.line),
            )  # fmt: skip
    except ClientError as error:
        if not out.sent:
            raise
        failure = str(error)
    except Interruption:
        if not connected:
            raise RecordingError(f"told to stop before {public_address(arguments.url)} had answered") from None
        failure = "told to stop, and not all had been answered"
    finally:
        out.close()
    result = summary(out, replay, time.monotonic() - begin)
    if failure:
        result["failure"] = failure
    say(result, arguments.json)
    return int(bool(failure) or out.acknowledged != out.sent)


class Shown:
    """The line of progress, with the rate since the last."""

    def __init__(self, out: Outlet, replay: Replay, begin: float) -> None:
        self._out = out
        self._replay = replay
        self._at = begin
        self._sent = 0

    def line(self) -> str:
        """Return the progress at this moment as a line."""
        now, out = time.monotonic(), self._out
        rate = (out.sent - self._sent) / max(now - self._at, 0.001)
        self._at, self._sent = now, out.sent
        refused = f"  refused {out.refused:,}: {next(iter(out.reasons))}" if out.refused else ""
        passes = f"  pass {self._replay.pass_number}" if self._replay.pass_number > 1 else ""
        late = self._replay.lateness
        late_shown = f"  late p99 {late.percentile_ms(99):.1f} ms" if late.count else ""
        return f"sent {out.sent:,} ({rate:,.0f}/s)  acknowledged {out.acknowledged:,}{refused}{late_shown}{passes}"


def summary(out: Outlet, replay: Replay, seconds: float) -> dict[str, Any]:
    """Return the figures of a replay, as the command prints them."""
    result: dict[str, Any] = {
        "sent": out.sent,
        "acknowledged": out.acknowledged,
        "refused": out.refused,
        "unknown": out.unknown,
        "passes": replay.pass_number,
        "seconds": round(seconds, 3),
        "sent_per_s": round(out.sent / max(seconds, 0.001), 1),
    }
    if replay.lateness.count:
        late = replay.lateness
        result |= {f"late_p{percent}_ms": round(late.percentile_ms(percent), 1) for percent in (50, 99)}
        result["late_max_ms"] = round(late.max_ms, 1)
    if out.reasons:
        result["reasons"] = dict(out.reasons.most_common())
    return result
