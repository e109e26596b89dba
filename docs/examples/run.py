"""run.py NAME [OPTIONS OF runrealtime]: migrates and fills one of the examples beside this file, and runs it.

It does what a reader would do by hand in the example's folder: `manage.py migrate`, `manage.py fill`, `manage.py
runrealtime`. An example may have a program besides, `device.py` or `worker.py`, which runs until the site ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
PACKAGES = EXAMPLES.parents[1]
"""This checkout, for an environment in which the packages are not installed."""


def main() -> int:
    """The status of the site, which Ctrl-C or SIGTERM ends."""
    names = sorted(path.parent.name for path in EXAMPLES.glob("*/manage.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.stderr.write(f"usage: run.py {'|'.join(names)} [options of runrealtime]\n")
        return 2
    folder = EXAMPLES / sys.argv[1]
    paths = [str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}

    def manage(*arguments: str) -> list[str]:
        return [sys.executable, "manage.py", *arguments]

    for step in (manage("migrate", "-v0"), manage("fill")):
        subprocess.run(step, cwd=folder, env=environment, check=True)
    site = subprocess.Popen(manage("runrealtime", *sys.argv[2:]), cwd=folder, env=environment)
    # Ctrl-C reaches the site by itself, as a shell sends it to all; SIGTERM reaches this program alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: site.terminate())
    names = [name for name in ("device.py", "worker.py") if (folder / name).exists()]
    besides = [subprocess.Popen([sys.executable, name], cwd=folder, env=environment) for name in names]
    try:
        return site.wait()
    finally:
        for program in besides:
            program.terminate()
        for program in besides:
            program.wait()


if __name__ == "__main__":
    sys.exit(main())
