"""The code blocks of the documentation as printed, and a new Django project made of those of docs/develop/django.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import until

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"(?:# |<!-- )(\w+/[\w./]+\.\w+)(, at its end)?")


class Block(NamedTuple):
    """A block; ``file`` is what its first line names, if that is a file; ``is_appended``: it goes to the file's end."""

    language: str
    text: str
    file: str
    is_appended: bool


def blocks(page: str, language: str = "") -> list[Block]:
    """Those of a page, in order, without the indentation of a list that they stand in."""
    found = []
    for indent, word, body in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        text = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        named = _FILE.match(text)
        block = Block(word, text, named[1] if named else "", bool(named and named[2]))
        if language in ("", word):
            found.append(block)
    return found


def one(page: str, language: str, text: str) -> str:
    """The block of a page that holds a text."""
    (found,) = [block.text for block in blocks(page, language) if text in block.text]
    return found


class Project:
    """What ``startproject`` makes in a folder, with every block of the guide that names its file."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        """``settings``: more lines at the end of its settings."""
        self.folder = folder
        self.run("-m", "django", "startproject", "mysite", ".")
        for block in blocks("docs/develop/django.md"):
            if block.file:
                self.write(block)
        self.append("mysite/settings.py", settings)

    def write(self, block: Block) -> None:
        """The file, or what comes at its end."""
        path = self.folder / block.file
        path.parent.mkdir(exist_ok=True)
        if not block.is_appended:
            path.unlink(missing_ok=True)
        self.append(block.file, block.text)

    def append(self, file: str, text: str) -> None:
        """Lines at the end of a file, which is made where it is missing."""
        with (self.folder / file).open("a", encoding="utf-8") as opened:
            opened.write(f"\n{text}\n")

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of this repository's project but the packages; ports that are free."""
        own = ("FASTPATH_", "REALTIME_", "DJANGO_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "FASTPATH_LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
        }

    def run(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """A Python program in the project's folder."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def manage(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """``manage.py`` of the project."""
        return self.run("manage.py", *arguments, check=check, **more)

    def shell(self, text: str) -> str:
        """What a block of Python prints in ``manage.py shell``."""
        return self.manage("shell", "-v0", "-c", text).stdout

    def running(self, *options: str, **more: str) -> Running:
        """``with project.running() as site:`` is ``manage.py runrealtime``, on a free port."""
        return Running(self, options, more)


class Running(Program):
    """A project under ``runrealtime``."""

    def __init__(self, project: Project, options: tuple[str, ...], more: dict[str, str]) -> None:
        super().__init__(
            [sys.executable, "manage.py", "runrealtime", "--port", "0", *options],
            more,
            r"Everything is running\.(?s:.*)Ctrl-C ends everything",
            40,
            folder=project.folder,
            base=project.environment,
        )

    @property
    def url(self) -> str:
        """The web server's address, without a slash at its end."""
        return self._said(r"(?:web|board) +(http://[^/\s]+)")

    @property
    def client_url(self) -> str:
        """The sidecar's."""
        return self._said(r"WebSocket +(ws://\S+)")

    @property
    def control(self) -> str:
        """The path of the control socket."""
        return self._said(r"control +(\S+)")

    def links(self) -> dict[str, str]:
        """The pages that the summary names."""
        return dict(re.findall(r"^ +(\w+) +(http://\S+)$", self.output, re.MULTILINE))

    def _said(self, pattern: str) -> str:
        found = until(lambda: re.search(pattern, self.output))
        return found[1]
