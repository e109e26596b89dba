"""``python -m tests.conformance [--suite FOLDER]``: all tests of MQTT, and the public suite of Eclipse Paho in FOLDER.

That is ``interoperability`` of eclipse/paho.mqtt.testing. Exits with 1 when anything fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.edge.mqtt import LISTEN
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import ROOT

from .suite import AS_WRITTEN, MODULES, NOT_SUBSCRIBABLE, names

OURS = (
    "tests/core/mqtt",
    "tests/edge/clients/mqtt",
    "tests/edge/hooks/test_passwords.py",
    "tests/workers/test_mqtt.py",
    "tests/workers/test_mqtt_groups.py",
    "tests/conformance",
)
SECONDS_MAX = 120
LINES_SHOWN = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """1 when something has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="interoperability of eclipse/paho.mqtt.testing")
    parser.add_argument("--only", nargs="*", default=(), help="tests of the suite; ours are not run then")
    given = parser.parse_args(arguments)
    failed = False
    if not given.only:
        failed = bool(
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OURS]).returncode
        )
    if given.suite is not None:
        folder = given.suite.resolve()
        for version in MODULES:
            failed |= not _suite(folder, version, given.only)
    return int(failed)


def _suite(folder: Path, version: str, only: Sequence[str]) -> bool:
    """Run the suite's tests of one version, each in a process and with a broker of its own; whether all have passed."""
    if not (folder / f"{MODULES[version]}.py").is_file():
        raise SystemExit(f"{folder} is not the folder interoperability of eclipse/paho.mqtt.testing")
    passed = count = 0
    for name in names(folder, version):
        if only and name not in only:
            continue
        count += 1
        rules = (
            rule(1, "/**", "anonymous", action="both"),
            rule(2, f"/__mqtt__/{NOT_SUBSCRIBABLE}", "anonymous", allow=False),
        )
        with ruled(*rules, listen=LISTEN) as rights:
            address = rights.sidecar.ready["mqtt"][0]
            error = _run(folder, version, name, address)
        passed += not error
        how = " (as written)" if name in AS_WRITTEN else ""
        print(f"MQTT {version}: {'FAILED' if error else 'passed'} {name}{how}", error, sep="\n" if error else "")
    print(f"MQTT {version}: {passed} of {count} tests of the suite have passed", flush=True)
    return passed == count


def _run(folder: Path, version: str, name: str, address: str) -> str:
    """What the test said before it failed; nothing if it has passed."""
    command = [sys.executable, "-m", "tests.conformance.suite", str(folder), version, name, address]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"not over within {SECONDS_MAX} s"
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(lines[-LINES_SHOWN:]) or "no reason" if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
