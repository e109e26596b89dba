"""`make bench ARGS=spark-live`: from a record's append to Kafka to a subscriber's handler, live and in micro-batches.

All on one machine and by one clock: the record holds when it was written. A line for each way and rate; `--seconds` are
those that are measured, behind `--warm` that are not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.kafka import Broker, Feed
from tests.support.sidecar import Sidecar
from tests.support.spark.driving import Ear, Job
from tests.support.waiting import until

WAYS = {
    "live": "spark.live, real-time mode, trigger 5 minutes",
    "batches": "the sink, exactly once, as fast as it goes",
}
HEAD = "| way | rows/s | rows | p50 ms | p90 | p99 | p99.9 | max | over 50 ms | Spark, % of a core | lost, doubled |"
WAIT_SECONDS = 120.0


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=spark-live", description=__doc__)
    parser.add_argument("--rates", default="100,1000,10000", help="rows a second, with commas (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=300, help="how long each is measured (default %(default)s)")
    parser.add_argument("--warm", type=int, default=15, help="how long before that (default %(default)s)")
    parser.add_argument("--ways", default=",".join(WAYS), help="live, batches, or both (default %(default)s)")
    options = parser.parse_args(words)
    say(f"load before: {os.getloadavg()[0]:.1f}; {'; '.join(f'{name}: {what}' for name, what in WAYS.items())}\n")
    say(f"{HEAD}\n|{'---|' * HEAD.count(' |')}")
    failed = 0
    with Broker() as broker:
        for way in options.ways.split(","):
            for rate in map(int, options.rates.split(",")):
                try:
                    say(run(broker, way, rate, options.seconds, options.warm))
                except AssertionError as error:  # the others are measured all the same
                    failed = 1
                    say(f"| {way} | {rate:,} | {' '.join(str(error).split())[:300]} |")
    return failed


def run(broker: Broker, way: str, rate: int, seconds: int, warm: int) -> str:
    """One row of the table."""
    topic = f"{way}-{rate}"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Sidecar(mode="none") as sidecar,
        Feed(broker, topic, 1) as feed,
    ):
        ear = Ear(sidecar.client_url, "/k/*")
        asked = {"master": "local[2]", "servers": broker.servers, "topic": topic, "kind": way}
        subject = "concat('/k/', cast(key as string))"
        checkpoint = str(Path(folder, "c"))
        with Job(
            Path(folder, "log"), url=sidecar.publisher_url, checkpoint=checkpoint, subject=subject, **asked
        ) as job:
            feed.write(1)
            until(lambda: ear.heard, WAIT_SECONDS)
            feed.begin(rate * (warm + seconds), rate)
            time.sleep(warm)
            before, began = job.cpu_seconds(), time.monotonic()
            feed.end()
            share = (job.cpu_seconds() - before) / (time.monotonic() - began)
            with suppress(AssertionError):  # what has not come by then is counted as lost
                until(lambda: len(ear.heard) >= feed.written, WAIT_SECONDS)
        heard = [content.split() for _, content, _ in ear.heard]
        ages = [
            moment * 1000 - int(content.split()[1]) / 1000
            for _, content, moment in ear.heard
            if int(content.split()[0]) > rate * warm
        ]
        numbers = {int(number) for number, _ in heard}
        ear.close()
    assert len(ages) > 1, f"{len(heard)} of {feed.written} rows came"
    cuts = statistics.quantiles(ages, n=1000)
    shown = [f"{value:,.1f}" for value in (cuts[499], cuts[899], cuts[989], cuts[998], max(ages))]
    lost = feed.written - len(numbers), len(heard) - len(numbers)
    late = sum(age > 50 for age in ages)
    counts = [f"{late:,}", f"{share * 100:.0f}", f"{lost[0]}, {lost[1]}"]
    return f"| {' | '.join([way, f'{rate:,}', f'{len(ages):,}', *shown, *counts])} |"


def say(line: str) -> None:
    """A line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
