"""Writes the fixtures anew: ``python -m tests.upgrade.make_fixtures CHECKOUT [END…]``.

The sidecar of that checkout, of the earlier revision, runs the story for each engine and each end of it, or for those
that are named. Of a journal the fixture is the folder; of Redis it
is a JSON file of all keys, which any version of Redis can be given.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.forked import COMMAND
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.upgrade import redis_data
from tests.upgrade.story import BASE, ENDS, SETTINGS, SHORT, tell

FIXTURES = Path(__file__).parent / "fixtures"

MINUTE = 68_374_080
"""The year 2100, in minutes since 1970. Publications are found again by the minute of their storing, for three minutes,
and this minute never goes back: with this one, as a primary has it whose clock is ahead, the fixtures do not age."""


def earlier(checkout: Path, end: str, **settings: Any) -> Sidecar:
    """The sidecar of that revision."""
    settings |= {"faults": "on", "faults_do": ENDS[end]} if ENDS[end] else {}
    settings |= SHORT if end == BASE else {}
    sidecar = Sidecar(**(SETTINGS | settings))
    command = sidecar.command if (checkout / "tests" / "support" / "failpoints.py").exists() else COMMAND
    sidecar.command = ["env", "-C", str(checkout), *command]
    return sidecar


def write(name: str, checkout: Path, facts: dict[str, Any]) -> None:
    """The facts of a fixture."""
    revision = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    facts |= {"revision": revision, "ended": int(time.time())}
    text = json.dumps(facts, ensure_ascii=False, indent=1, sort_keys=True)
    (FIXTURES / f"{name}.facts.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Make all of them."""
    checkout = Path(sys.argv[1]).resolve()
    FIXTURES.mkdir(exist_ok=True)
    for end in sys.argv[2:] or ENDS:
        folder = FIXTURES / f"journal-{end}"
        shutil.rmtree(folder, ignore_errors=True)
        with earlier(checkout, end, journal="batch", data=folder) as sidecar:
            write(folder.name, checkout, tell(sidecar, end, folder if end == BASE else None))
        if end == BASE:
            continue
        with RedisServer() as server:
            server.call("HSET", "fastpath:meta", "minute", MINUTE)
            with earlier(checkout, end, engine=server.url) as sidecar:
                facts = tell(sidecar, end)
            write(f"redis-{end}", checkout, facts)
            text = json.dumps(redis_data.dump(server), indent=0, sort_keys=True)
            (FIXTURES / f"redis-{end}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
