"""A real PostgreSQL in a temporary folder, reached by a unix socket there, as a context manager."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import until

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


class Postgres:
    """``with Postgres() as server:``; ``host`` is its address, and everybody on this machine is its superuser."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fp-postgres-"))
        self._as_user: dict[str, Any] = {"cwd": self._folder}
        self._process: subprocess.Popen[bytes] | None = None
        self.host = str(self._folder)

    def __enter__(self) -> Self:
        try:
            if os.geteuid() == 0:
                account = pwd.getpwnam(USER)
                os.chown(self._folder, account.pw_uid, account.pw_gid)
                self._as_user |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": ()}
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        data = f"--pgdata={self._folder / 'data'}"
        made = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        subprocess.run([program("initdb"), data, *made], check=True, stdout=subprocess.DEVNULL, **self._as_user)
        options = [f"-c{option}" for option in (*_QUICK, "listen_addresses=", f"unix_socket_directories={self.host}")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", str(self._folder / "data"), *options],
                stdout=log,
                stderr=log,
                **self._as_user,
            )
        until(self._answers, START_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # at once, whoever is still connected
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        return subprocess.run([program("pg_isready"), "-q", "-h", self.host], check=False).returncode == 0
