"""The processes of a job's session."""

from __future__ import annotations

from pathlib import Path


def members(session: int) -> list[int]:
    """The live processes of a session: the job, its JVM, and Spark's Python workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(path.parent.name))
    return found
