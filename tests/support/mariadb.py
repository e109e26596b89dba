"""A real MariaDB in a temporary folder, reached by a unix socket there, as a context manager."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.support.database_server import DatabaseServer

USER = "mysql"
"""Who runs it when the tests are root's, whom MariaDB refuses: Debian's package makes this user."""

START_SECONDS = 60

_QUICK = (
    "innodb-flush-log-at-trx-commit=0",
    "innodb-doublewrite=0",
    "innodb-buffer-pool-size=32M",
    "innodb-log-file-size=32M",
    "performance-schema=OFF",
)
"""Nothing of it has to outlive the tests."""


def program(name: str) -> str:
    """The path of one of MariaDB's programs: Debian keeps the server where not everybody's PATH leads."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    assert found is not None, f"there is no {name}: tools/ready_for.sh mariadb says what to install"
    return found


class MariaDB(DatabaseServer):
    """``with MariaDB() as server:``; ``socket`` is its address, where ``root`` needs no password."""

    def __init__(self, *options: str) -> None:
        super().__init__("mariadb", USER, START_SECONDS)
        self._options = options
        self.socket = str(self.folder / "socket")

    def _made(self) -> list[str]:
        data = f"--datadir={self.folder / 'data'}"
        # What Debian configures is another server's; the first option or none.
        made = ("--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db")
        done = subprocess.run(
            [program("mariadb-install-db"), *made],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self.as_user,
        )
        assert done.returncode == 0, done.stdout
        options = (
            *_QUICK,
            *self._options,
            "skip-networking",
            f"socket={self.socket}",
            f"pid-file={self.folder / 'pid'}",
        )
        return [program("mariadbd"), "--no-defaults", data, *(f"--{option}" for option in options)]

    def _answers(self) -> bool:
        ping = [program("mariadb-admin"), "--no-defaults", "--user=root", f"--socket={self.socket}", "ping"]
        return subprocess.run(ping, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
