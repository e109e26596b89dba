"""A real sidecar for a test: a process on free ports, which follows the rules of the test's database."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, Self

from django.conf import settings
from django.test.utils import override_settings

from entitlement import conf as entitlement_conf
from entitlement.following.agent import follow
from fastpath.client.control.client import Control
from realtime.conf import conf

START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.02
"""Seconds between two questions whether the rights have arrived."""


class LiveSidecar:
    """``with LiveSidecar() as sidecar:`` in a test whose data is committed: TransactionTestCase, ``transactional_db``.

    Meanwhile REALTIME names it: publish() and the pages reach it, and clients connect to ``client_url``.
    """

    client_url: str
    """``ws://127.0.0.1:PORT/ws``"""
    publisher_url: str
    """``127.0.0.1:PORT``"""
    control: str
    """The path of the control socket."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fastpath-")
        self.control = str(Path(self._folder.name) / "control.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._agent = threading.Thread(target=follow, args=([self.control], self._stop), name="agent", daemon=True)
        self._settings = override_settings()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._agent.ident is not None:
            self._agent.join(STOP_SECONDS_MAX)
            self._settings.disable()
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._folder.cleanup()

    def _start(self) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
        own = {
            "FASTPATH_LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
            "FASTPATH_CONTROL": self.control,
            "FASTPATH_MODE": "rules",
            "FASTPATH_WORKERS": "1",
            "FASTPATH_TOKEN_SECRET": entitlement_conf.token_secret(),
        }
        if conf.token_keys:
            own["FASTPATH_TOKEN_KEYS"] = conf.token_keys
        with (Path(self._folder.name) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fastpath"],
                cwd=self._folder.name,
                env=given | own | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        end = time.monotonic() + START_SECONDS_MAX
        assert self._process.stdout is not None
        ready = self._ready(self._process.stdout, end)
        clients, publishers = ready["clients"][0], ready["publishers"][0]
        self.client_url, self.publisher_url = f"ws://{clients}/ws", publishers
        mine = {
            "BACKEND": "sidecar",
            "CONTROL": self.control,
            "LISTEN": f"clients://{clients},publishers://{publishers}",
        }
        self._settings = override_settings(REALTIME={**getattr(settings, "REALTIME", {}), **mine})
        self._settings.enable()
        self._agent.start()
        with Control(self.control) as control:
            while control.hello()["generation"] is None:
                if time.monotonic() > end:
                    raise AssertionError(f"no rights have arrived at the sidecar: {self.log}")
                time.sleep(POLL_SECONDS)

    @property
    def log(self) -> str:
        """Text that the sidecar has written to its log."""
        path = Path(self._folder.name) / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _ready(self, output: IO[bytes], end: float) -> dict[str, Any]:
        """Return the addresses that the sidecar tells when it serves; raise AssertionError with its log."""
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([output], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(output.fileno(), 1 << 16) if readable else b""
            if not chunk:
                raise AssertionError(f"the sidecar does not start: {self.log}")
            line += chunk
        found: dict[str, Any] = json.loads(line.split(b"\n")[0].removeprefix(b"ready "))
        return found
