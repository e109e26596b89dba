"""Fuzz one target: ``python -m tests.fuzz TARGET [--seconds N] [--corpus FOLDER]``; ``--list`` names them.

A line for each is one JSON object: target, executions, coverage in edges of the byte code, how many inputs reached
something new, seconds, and the input that was found, if one was. Exit status 1 then.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 20
"""An input that takes longer is a finding; generous, because the machine may be busy."""
MEMORY_MB_MAX = 1024
"""So is one that makes the process grow beyond this."""
PROGRAM = """
import sys, logging
import atheris
with atheris.instrument_imports(include=["fastpath"]):
    from tests.fuzz.targets import targets
    target = targets()[sys.argv.pop(1)]
logging.basicConfig(level=logging.CRITICAL if "-runs=0" in sys.argv else logging.ERROR)
atheris.Setup(sys.argv, target.read)
atheris.Fuzz()
"""
_PROGRESS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def fuzz(name: str, seconds: int, corpus: Path, found: Path) -> dict[str, object]:
    """Run one target for a while in a process of its own, from what earlier runs have kept in ``corpus``."""
    from tests.fuzz.targets import targets  # not instrumented here

    target = targets()[name]
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as words:
        words.writelines(f'"{_escaped(word)}"\n' for word in target.words)
        words.flush()
        began = time.monotonic()
        run = subprocess.run(
            [
                *(sys.executable, "-c", PROGRAM, name, str(corpus)),
                *(f"-max_total_time={seconds}", f"-max_len={target.bytes_max}", f"-dict={words.name}"),
                *(f"-timeout={SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={found}/{name}-"),
                *("-print_final_stats=1", "-use_value_profile=0", "-len_control=20"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    output = run.stdout + run.stderr
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
    progress = _PROGRESS.findall(output)
    new = sorted(path.name for path in set(found.iterdir()) - before)
    if run.returncode:
        (found / f"{name}.log").write_text(output[-20_000:])
    return {
        "target": name,
        "executions": int(executed[1]) if executed else 0,
        "edges": int(progress[-1][0]) if progress else 0,
        "corpus": int(progress[-1][2]) if progress else 0,
        "seconds": round(time.monotonic() - began),
        "found": new,
        "status": run.returncode,
    }


def _escaped(word: bytes) -> str:
    """As libFuzzer's dictionaries are written."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def main() -> int:
    """Fuzz what the command line says."""
    from tests.fuzz.targets import targets

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", help="names; none: all, one after the other")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--corpus", type=Path, default=ROOT / "var" / "fuzz", help="what is kept (var/fuzz)")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args()
    known = targets()
    if options.list:
        sys.stdout.write("\n".join(known) + "\n")
        return 0
    unknown = set(options.targets) - set(known)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    status = 0
    for name in options.targets or known:
        result = fuzz(name, options.seconds, options.corpus / name, options.corpus / "found")
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
        status = status or int(result["status"] != 0)
    return status


if __name__ == "__main__":
    sys.exit(main())
