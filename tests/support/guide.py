"""The code blocks of the documentation as printed, and a new Django project made of those of docs/develop/django.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.core.management import call_command

from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

_FENCE = re.compile(r"^( *)```(.*)$")
NAMED = r"(?:# |// |<!-- )(\w+/[\w./]+\.\w+)(, at its end)?"
"""How a block begins that names its file."""
_EXCUSE = re.compile(r" *<!-- not run: (.+) -->")


class Block(NamedTuple):
    """A block; ``file`` is what its first line names, if that is a file; ``is_appended``: it goes to the file's end.

    ``line`` is that of its fence, ``heading`` the one above it, ``excuse`` the reason in a comment right before it why
    nobody runs it.
    """

    page: str
    line: int
    heading: str
    language: str
    text: str
    file: str
    is_appended: bool
    excuse: str


def read(page: str) -> Iterator[Block]:
    """All blocks of a page, in order, without the indentation of a list that they stand in."""
    heading = before = ""
    opened: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence is None:
            heading = line.lstrip("#").strip() if re.match("#+ ", line) else heading
        elif opened is None and fence is not None:
            opened, lines = (number, fence[1], fence[2]), []
            reason = _EXCUSE.fullmatch(before)
        elif fence is None or fence[2]:
            assert opened is not None
            lines.append(f"{line.removeprefix(opened[1])}\n")
        else:
            assert opened is not None
            text = "".join(lines)
            named = re.match(NAMED, text)
            file, is_appended = (named[1], bool(named[2])) if named else ("", False)
            yield Block(page, opened[0], heading, opened[2], text, file, is_appended, reason[1] if reason else "")
            opened = None
        before = line
    assert opened is None, f"{page}:{opened} is not closed"


def every(page: str, language: str = "", pattern: str = "", before: str = "") -> list[Block]:
    """Those of a page at whose beginning the pattern matches; ``before``: only those up to this text.

    Who asks for a block here runs it: tests/documentation/test_blocks.py finds the calls of this function and of
    ``one``, and what they ask for counts as run.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    assert before in text, f"{page} does not say {before!r}"
    end = text[: text.index(before)].count("\n") + 1 if before else len(text)
    found = [block for block in read(page) if language in ("", block.language) and block.line < end]
    found = [block for block in found if re.match(pattern, block.text)]
    assert found, f"{page} has no block {language} that begins with {pattern!r}"
    return found


def one(page: str, language: str, text: str) -> str:
    """The block of a page that holds a text."""
    found = [block.text for block in read(page) if block.language == language and text in block.text]
    assert len(found) == 1, f"{page} has {len(found)} blocks {language} with {text!r}"
    return found[0]


_MIGRATED: list[bytes] = []
"""The database of a new project, once one has been made."""


class Project:
    """What ``startproject`` makes in a folder, with every block of the guide that names its file."""

    def __init__(self, folder: Path, settings: str = "", *, python: str = "", before: str = "") -> None:
        """``settings``: more lines at the end of its settings.

        ``python``: the interpreter of an environment where the packages are installed, instead of this checkout's;
        ``before``: only the blocks up to this text of the guide.
        """
        self.folder = folder
        self.python = python or sys.executable
        self._paths = {} if python else {"PYTHONPATH": str(ROOT)}
        if python:
            self.run("-m", "django", "startproject", "mysite", ".")
        else:
            call_command("startproject", "mysite", str(folder))
        for block in every("docs/develop/django.md", pattern=NAMED, before=before):
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
        own = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return kept | self._paths | {"FASTPATH_LISTEN": "clients://127.0.0.1:0,publishers://127.0.0.1:0"}

    def run(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """A Python program in the project's folder."""
        done = subprocess.run(
            [self.python, *arguments],
            cwd=self.folder,
            env=self.environment | more,
            capture_output=True,
            text=True,
            timeout=6 * PATIENCE_SECONDS,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def manage(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """``manage.py`` of the project."""
        return self.run("manage.py", *arguments, check=check, **more)

    def migrate(self) -> None:
        """Make the database, as ``migrate`` did for the first one: not where ``settings`` add an app with tables."""
        database = self.folder / "db.sqlite3"
        if _MIGRATED:
            database.write_bytes(_MIGRATED[0])
        else:
            self.manage("migrate", "-v0")
            _MIGRATED.append(database.read_bytes())

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
            [project.python, "manage.py", "runrealtime", "--port", "0", *options],
            more,
            r"Everything is running[.,](?s:.*)Ctrl-C ends everything",
            max(40, 2 * PATIENCE_SECONDS),
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
