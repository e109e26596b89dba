"""Who follows a page of the tutorial: types each block in its order, and sees in a browser what the page says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Self

from playwright.sync_api import Page

from tests.support.guide import Block
from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.spark.processes import members
from tests.support.waiting import until

SECONDS_MAX = 600
"""For a command, and for what a page has to show: a job of Spark takes most, half a minute on an idle machine."""
SERVER = "manage.py runrealtime"
SHOWN = "text"
"""The language of blocks that are what a page shows."""
ASKING = re.compile(r"print\(|entitlement_explain ")
"""Commands that change nothing: who is too early asks again."""


class Terminal:
    """Shells whose folder and variables last from one to the next; what they leave running ends with this."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._variables, self._where = folder / "variables", folder / "where"
        self._variables.touch()
        self._where.write_text(str(folder / "home"))
        self._sessions: list[int] = []

    def argv(self, text: str) -> list[str]:
        """The words that run commands here."""
        return ["bash", "-c", f'set -e\n. {self._variables}\ncd "$(cat {self._where})"\n{text}']

    def run(self, text: str) -> tuple[int, str]:
        """The status and what was printed; a job in the background goes on."""
        keep = f"pwd > {self._where}\nexport -p > {self._variables}"
        path = self._folder / f"said-{len(self._sessions)}"  # a job in the background goes on writing to it
        with path.open("w", encoding="utf-8") as said:
            shell = subprocess.Popen(
                self.argv(f"{text}\n{keep}"),
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._sessions.append(shell.pid)
        return shell.wait(SECONDS_MAX), path.read_text(encoding="utf-8")

    def background(self, text: str, ready: str) -> Program:
        """One command that goes on, ready when it says so."""
        argv = self.argv(f"exec env {text}")
        return Program(argv, {}, ready, SECONDS_MAX, folder=self._folder, base=self._environment)

    def close(self) -> None:
        """End what is left, wherever in the folder it runs."""
        for pid in chain.from_iterable(map(members, self._sessions)):
            with suppress(OSError):  # it has ended meanwhile
                if Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(self._folder):
                    os.kill(pid, signal.SIGKILL)


class Reader:
    """``with Reader(folder, wheel) as reader:`` has a terminal in an empty folder, where pip finds the wheel alone.

    Ports are free ones, and the number of the sidecar's process is that of the running one: nothing else differs from
    what the pages print. ``packages`` is a folder of more that need not be installed again, ``more`` are variables.
    """

    def __init__(self, folder: Path, wheel: Path, packages: str = "", **more: str) -> None:
        self._open = ExitStack()
        self._web, self._clients, self._publishers = free_port(), free_port(), free_port()
        self._terminal = Terminal(folder, self._environment(folder, wheel, packages) | more)
        self._folder = folder / "home" / "parcels"
        self._blocks: list[Block] = []
        self._server: Program | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop()
        finally:
            self._terminal.close()

    def opens(self, blocks: list[Block]) -> None:
        """Begin with a page, when that before is done."""
        assert not self._blocks
        self._blocks = list(blocks)

    def goes_on(self) -> None:
        """Type all blocks up to the next that is shown, or to the end."""
        while self._blocks and self._blocks[0].language != SHOWN:
            self._type(self._blocks.pop(0))

    def sees(self, page: Page) -> None:
        """The next block is what a page shows, soon."""
        block = self._blocks.pop(0)
        assert block.language == SHOWN, self._place(block)
        wanted = block.text.splitlines()
        shown: list[str] = []

        def is_shown() -> bool:
            shown[:] = [line for line in page.inner_text("body").splitlines() if line]
            return shown == wanted

        try:
            until(is_shown, SECONDS_MAX)
        except AssertionError:
            raise AssertionError(f"{self._place(block)}: the page shows {shown}; {self._output}") from None

    @contextmanager
    def meanwhile(self, ready: str) -> Iterator[None]:
        """The next block runs while what is within happens, which begins when it has said ``ready``; to its end."""
        block = self._blocks.pop(0)
        with self._terminal.background(self.here(block.text), ready) as program:
            yield
            assert program.wait(SECONDS_MAX) == 0, program.output

    @property
    def url(self) -> str:
        """What the pages print as http://127.0.0.1:8000."""
        return f"http://127.0.0.1:{self._web}"

    def stops_the_server(self) -> None:
        """As by Ctrl-C."""
        assert self._server is not None
        self._stop()

    def here(self, text: str) -> str:
        """The text with this reader's ports and process."""
        ports = {":8000": self._web, ":8800": self._clients, ":8801": self._publishers}
        for printed, port in ports.items():
            text = text.replace(f"127.0.0.1{printed}", f"127.0.0.1:{port}")
        if "kill -9 4125" in text:
            found = re.findall(r"^ +processes .*sidecar (\d+)", self._output, re.MULTILINE)
            text = text.replace("4125", found[-1])
        return text

    def _type(self, block: Block) -> None:
        text = self.here(block.text)
        if block.file:
            path = self._folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text(encoding="utf-8") if block.is_appended else ""
            path.write_text(f"{before}\n{text}" if before else text, encoding="utf-8")
        elif block.language == "sh" and SERVER in text:
            self._stop()
            ready = r"Everything is running\.(?s:.*)Ctrl-C ends everything"
            program = self._terminal.background(f"{text.strip()} --port {self._web}", ready)
            self._server = self._open.enter_context(program)
        elif block.language == "console":
            self._compare(block, text)
        else:
            assert block.language == "sh", self._place(block)
            status, said = self._terminal.run(text)
            assert status == 0, f"{self._place(block)}: {said}"

    def _compare(self, block: Block, text: str) -> None:
        for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            pattern = re.compile("(?s:.*)".join(map(re.escape, wanted.strip().split("…"))))
            end = time.monotonic() + SECONDS_MAX
            _, said = self._terminal.run(command)
            while not pattern.fullmatch(said.strip()):
                assert ASKING.search(command) and time.monotonic() < end, f"{self._place(block)}: {said}"
                _, said = self._terminal.run(command)

    def _stop(self) -> None:
        self._open.close()
        self._server = None

    @property
    def _output(self) -> str:
        return self._server.output if self._server else ""

    def _place(self, block: Block) -> str:
        return f"{block.page}:{block.line}"

    def _environment(self, folder: Path, wheel: Path, packages: str) -> dict[str, str]:
        (folder / "bin").mkdir()
        (folder / "home").mkdir()
        program = folder / "bin" / "python3"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        own = ("FASTPATH_", "REALTIME_", "DJANGO_", "PYTHON", "SPARK_", "PYSPARK_", "PIP_", "VIRTUAL_ENV", "OLDPWD")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return kept | {
            "PATH": f"{folder / 'bin'}:{kept['PATH']}",
            # What the package needs is not installed again.
            "PYTHONPATH": os.pathsep.join(filter(None, (sysconfig.get_path("purelib"), packages))),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_FIND_LINKS": str(wheel.parent),
            "FASTPATH_LISTEN": f"clients://127.0.0.1:{self._clients},publishers://127.0.0.1:{self._publishers}",
            "NO_PROXY": "*",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
