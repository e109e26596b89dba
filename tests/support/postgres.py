"""A real PostgreSQL in a temporary folder, reached by a unix socket there, as a context manager."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.database_server import DatabaseServer

USER = "postgres"
"""Who runs it when the tests are root's, whom PostgreSQL refuses: Debian's package makes this user."""

START_SECONDS = 30

_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=32MB")
"""Nothing of it has to outlive the tests."""


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs, which Debian keeps out of PATH; of its newest version."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    found = str(places[-1]) if places else shutil.which(name)
    assert found is not None, f"there is no {name}: tools/ready_for.sh postgres says what to install"
    return found


class Postgres(DatabaseServer):
    """``with Postgres() as server:``; ``host`` is its address, and everybody on this machine is its superuser."""

    stop_signal = signal.SIGINT

    def __init__(self) -> None:
        super().__init__("postgres", USER, START_SECONDS)
        self.host = str(self.folder)

    def _made(self) -> list[str]:
        data = f"--pgdata={self.folder / 'data'}"
        made = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        subprocess.run([program("initdb"), data, *made], check=True, stdout=subprocess.DEVNULL, **self.as_user)
        options = [f"-c{option}" for option in (*_QUICK, "listen_addresses=", f"unix_socket_directories={self.host}")]
        return [program("postgres"), "-D", str(self.folder / "data"), *options]

    def _answers(self) -> bool:
        return subprocess.run([program("pg_isready"), "-q", "-h", self.host], check=False).returncode == 0
