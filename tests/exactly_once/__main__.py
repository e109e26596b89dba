"""`python -m tests.exactly_once`: kills at random, failpoints, retried tasks; then all that is stored is checked.

The last line of each run is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import Row

from fastpath.bench.machine.description import revision
from spark.session import build
from tests.exactly_once import job
from tests.exactly_once.check import Verdict, check_bars, check_rows
from tests.exactly_once.world import World
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar

FAULTS: dict[str, Callable[[World], object]] = {
    "driver": World.kill_job,
    "executor": World.kill_workers,
    "sidecar": World.kill_sidecar,
    "before commit": lambda world: world.at_point("before"),
    "after commit": lambda world: world.at_point("after"),
}
GAP_BATCHES = 3
"""So many batches are committed, at most, between two faults."""

TICKS = 1_000_000


def stored(sidecar: Sidecar, subject: str) -> list[tuple[int, int]]:
    """The numbers and contents of all messages of a subject, as a subscriber is sent them."""
    with WireClient(sidecar) as client:
        result = client.ask("subscribe", "subscribed", subjects=[subject], history=10_000_000)["results"][0]
        messages = [client.message() for _ in range(result["seq"])]
    return [(message[1], int(message[3])) for message in messages]


def rows(kills: int, chance: random.Random, say: Callable[[str], None]) -> tuple[Verdict, dict[str, int]]:
    """Numbers in an order that differs from attempt to attempt, through ``kills`` faults."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, World(Path(folder), "rows") as world:
        done = inject(world, kills, chance, say)
        world.advance(2)
        batches = world.batches()
        world.kill_job()
        found = {f"/checked/{n}": stored(world.sidecar, f"/checked/{n}") for n in range(job.SUBJECTS)}
        done["restarts of Spark"] = world.restarts
        return check_rows(found, batches, job.BATCH_ROWS, job.SUBJECTS), done


def bars(kills: int, chance: random.Random, say: Callable[[str], None]) -> tuple[Verdict, dict[str, int]]:
    """The bars of a million ticks, both exactly once, held against a batch over the ticks that are stored."""
    base_ms = (int(time.time()) - 7200) // 60 * 60_000
    base_ms = (int(time.time()) - 7200) // 60 * 60 * 1000
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        World(Path(folder), "bars", base_ms) as world,
    ):
        done = inject(world, kills, chance, say)
        while world.batches() < TICKS // job.TICKS:
            world.advance(1)
        world.advance(3, "bars")
        world.kill_job()
        done["restarts of Spark"] = world.restarts
        session = build("recompute", **{"spark.driver.memory": "3g"})
        try:
            reader = session.read.format("realtime").options(url=world.sidecar.publisher_url, start="earliest")
            ticks = reader.option("subjects", "/stocks/us/*").load().persist()
            done["ticks"] = ticks.count()
            recomputed = {
                (row.subject, str(row.fields.start)): (row.content, _as_text(row.fields))
                for row in job.transformed(ticks).collect()
            }
            published = [_text(row) for row in reader.option("subjects", "/sql-bars/us/*").load().collect()]
            # A bar is final when the watermark has passed its end: so are all that end before the newest.
            newest = max((int(fields["end"]) for _, _, fields in published), default=0)
            return check_bars(published, recomputed, newest), done
        finally:
            session.stop()


def _as_text(fields: Row) -> dict[str, str]:
    return {name: str(value) for name, value in fields.asDict().items()}


def _text(row: Row) -> tuple[str, str, dict[str, str]]:
    fields = {
        name: value.decode() if isinstance(value, bytes | bytearray) else value for name, value in row.fields.items()
    }
    return row.subject, bytes(row.content).decode(), fields


def inject(world: World, kills: int, chance: random.Random, say: Callable[[str], None]) -> dict[str, int]:
    """Every kind of fault once, then any, with some batches between them; how many of each."""
    world.advance(2)
    names = list(FAULTS)
    order = names + [chance.choice(names) for _ in range(max(0, kills - len(names)))]
    chance.shuffle(order := order[:kills])
    done = dict.fromkeys(names, 0)
    for number, name in enumerate(order, 1):
        world.advance(chance.randint(1, GAP_BATCHES))
        time.sleep(chance.random() * 0.5)  # anywhere in a batch
        FAULTS[name](world)
        done[name] += 1
        say(f"{number} of {kills}: {name}; {world.batches()} batches are committed")
    for failure in world.failures:
        say(f"a query ended by itself: {failure}")
    return done


def main() -> int:
    """0 when nothing is lost, doubled, out of order or different."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("rows", "bars"), help="default: both")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="faults in each run (default 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another one kills in another order")
    options = parser.parse_args()
    good = True
    for what in [options.what] if options.what else ["rows", "bars"]:
        began = time.monotonic()
        run = rows if what == "rows" else bars
        verdict, done = run(options.kills, random.Random(options.seed), lambda text: print(text, flush=True))
        seconds = round(time.monotonic() - began)
        told = asdict(verdict) | {"what": what, "revision": revision(), "faults": done, "seconds": seconds}
        print(json.dumps(told), flush=True)
        good = good and verdict.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
