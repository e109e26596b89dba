"""A database server in a temporary folder, run by an ordinary user, as a context manager."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import PATIENCE_SECONDS, until

STOP_SECONDS_MAX = 2 * PATIENCE_SECONDS


class DatabaseServer(ABC):
    """``with Server() as server:`` of a kind of server, whose programs root runs as ``user``.

    ``folder`` holds its files; ``as_user`` is what ``subprocess`` needs to run a program of it as that user.
    """

    stop_signal = signal.SIGTERM
    """What ends it at once, whoever is still connected."""

    def __init__(self, kind: str, user: str, start_seconds: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"fp-{kind}-"))
        self._user = user
        self._start_seconds = start_seconds
        self.as_user: dict[str, Any] = {"cwd": self.folder}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            if os.geteuid() == 0:
                account = pwd.getpwnam(self._user)
                os.chown(self.folder, account.pw_uid, account.pw_gid)
                self.as_user |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": ()}
            command = self._made()
            with (self.folder / "log").open("wb") as log:
                self._process = subprocess.Popen(command, stdout=log, stderr=log, **self.as_user)
            try:
                until(self._runs, self._start_seconds)
            except AssertionError as error:
                raise AssertionError(f"{command[0]} does not answer: {self._log()}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder)

    @abstractmethod
    def _made(self) -> list[str]:
        """The server's command, once its files are made."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it takes connections."""

    def _runs(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "it has ended"
        return self._answers()

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")
