"""The packages that executors need, as one archive: `python -m spark.shipping realtime.zip` for `--py-files`."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
"""The folder that the packages lie in; the archive itself, where they were imported from one."""
PACKAGES = ("fastpath", "spark", "pyspark_fastpath")
ENDS = (".py", ".properties", ".java")
ARCHIVE = "realtime_packages.zip"


def pack(path: Path) -> Path:
    """Write the archive; raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for file in sorted(each for end in ENDS for each in (ROOT / package).rglob(f"*{end}")):
                archive.write(file, file.relative_to(ROOT))
    return path


def ship(session: SparkSession) -> None:
    """Send the packages to executors on other machines; these still need pyspark, pyarrow and msgspec installed."""
    session.sparkContext.addPyFile(str(ROOT if ROOT.is_file() else _archive()))


@cache
def _archive() -> Path:
    """Make one archive for this process.

    Executors that start later fetch it, too, and Spark takes a name from one folder only.
    """
    folder = Path(tempfile.mkdtemp(prefix="realtime-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pack(folder / ARCHIVE)


def main(words: Sequence[str]) -> int:
    """Write the archive to the path that is given."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m spark.shipping FILE.zip", file=sys.stderr)  # noqa: T201
        return 2
    print(pack(Path(words[0])))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
