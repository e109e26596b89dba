"""``manage.py runrealtime`` with everything that it starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.processes import descendants
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of run-time files with a migrated database."""
    made = tmp_path_factory.mktemp("var")
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment(made), check=True)
    return made


def environment(folder: Path) -> dict[str, str]:
    """Of a project whose run-time files are in a folder of the test's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "REALTIME_"))}
    # What is started again finds its ports free: no client is given them meanwhile.
    listen = ",".join(f"{kind}://127.0.0.1:{free_port()}" for kind in ("clients", "publishers", "mqtt"))
    return kept | {"REALTIME_VAR": str(folder), "FASTPATH_LISTEN": listen, "FASTPATH_WORKERS": "2"}


class Everything(Program):
    """``manage.py runrealtime`` on free ports."""

    def __init__(self, folder: Path, *options: str, **more: str) -> None:
        argv = [sys.executable, "manage.py", "runrealtime", "--port", str(free_port()), *options]
        super().__init__(argv, environment(folder) | more, r"Everything is running(?s:.*)Ctrl-C ends everything", 40)

    def latest(self, pattern: str) -> str:
        """The last match in the output."""
        return re.findall(pattern, self.output)[-1]

    @property
    def site(self) -> str:
        """The web server's address."""
        return self.latest(r"board +(http://\S+)/")

    @property
    def client_url(self) -> str:
        """The sidecar's."""
        return self.latest(r"WebSocket +(ws://\S+)")

    def pid(self, argument: str) -> int | None:
        """The child of this one that runs something, if one does; its own workers look the same."""
        for pid in descendants(self.process.pid):
            with suppress(OSError):  # it has ended meanwhile
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
                if argument in words and parent == str(self.process.pid):
                    return pid
        return None

    def status(self, path: str) -> int:
        """What the web server answers; 0 when it does not."""
        try:
            with urllib.request.urlopen(self.site + path, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own server
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
