"""The programs of docs/examples/languages: what builds each, what runs it, and which can be had on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.realtime.server import Program
from tests.support.sidecar import ROOT

FOLDER = ROOT / "docs" / "examples" / "languages"
BEHAVIOURS = ROOT / "tests" / "behaviours"
BUILD_SECONDS_MAX = 240
"""Go compiles its own library once on a machine, which takes half a minute on two busy cores."""

DRIVER = Path(sysconfig.get_paths()["purelib"]) / "playwright" / "driver"
"""Playwright brings a Node, which stands in where the machine has none, and runs where the browsers' tests can."""
NODE_VERSION_MIN = 18


@cache
def node() -> str | None:
    """The machine's Node where it runs the client's modules, else Playwright's, else none."""
    for found in filter(None, (shutil.which("node"), shutil.which("node", path=DRIVER))):
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"v(\d+)\.", said)
        if version and int(version[1]) >= NODE_VERSION_MIN:
            return found
    return None


class Language(NamedTuple):
    """One program; in its commands ``{source}`` is the file, ``{out}`` a folder for what is built, and ``{behaviours}``
    where drivers are."""

    name: str
    file: str
    tool: str
    """What has to be there, in PATH."""
    run: str
    build: str = ""
    """It says nothing where there is nothing to warn of."""
    driver: str = ""
    """What drives a client in this language through the table of behaviours, once it is built."""

    @property
    def is_here(self) -> bool:
        """Whether the machine has what it takes."""
        return self._which() is not None

    def built(self, out: Path) -> list[str]:
        """The command that runs it, after it was built; AssertionError with what the compiler has to say, if anything.

        A program that was built needs nothing else there.
        """
        for build in filter(None, self.build.split(" && ")):
            done = subprocess.run(
                self._command(build, out),
                env=os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": ""},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=BUILD_SECONDS_MAX,
                check=False,
            )
            assert (done.returncode, done.stdout) == (0, ""), done.stdout
        return self._command(self.run, out)

    def drives(self, out: Path) -> list[str]:
        """The command of its driver, in the folder where it was built."""
        return self._command(self.driver, out)

    def _which(self) -> str | None:
        return node() if self.tool == "node" else shutil.which(self.tool)

    def _command(self, text: str, out: Path) -> list[str]:
        words = [word.format(source=FOLDER / self.file, out=out, behaviours=BEHAVIOURS) for word in text.split()]
        return [str(self._which()) if word == self.tool else word for word in words]


LANGUAGES = (
    Language("cpp", "fastpath.cpp", "g++", "{out}/fastpath", "g++ -std=c++17 -O1 -Wall -Wextra -Wpedantic -Wshadow "
             "-Wconversion -Werror -o {out}/fastpath {source}"),
    Language("go", "fastpath.go", "go", "{out}/fastpath", "go vet {source} && go build -o {out}/fastpath {source}"),
    Language("java", "Fastpath.java", "javac", "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {out} Fastpath",
             "javac -Xlint:all -Werror -d {out} {source}"),
    Language("java-websocket", "FastpathSocket.java", "javac",
             "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {out} FastpathSocket",
             "javac -Xlint:all -Werror -d {out} {source} {behaviours}/Drive.java", "java -cp {out} Drive"),
    Language("node", "fastpath.mjs", "node", "node {source}", driver="node {behaviours}/driver.mjs"),
    Language("php", "fastpath.php", "php", "php -d error_reporting=-1 -d display_errors=stderr {source}"),
    Language("ruby", "fastpath.rb", "ruby", "ruby -w {source}"),
    Language("rust", "fastpath.rs", "rustc", "{out}/fastpath", "rustc --edition 2021 -D warnings -o {out}/fastpath "
             "{source}"),
)  # fmt: skip


def environment(site: str, token: str, **more: str) -> dict[str, str]:
    """What a program of them reads, and an environment in which its arguments are UTF-8 and no proxy is asked."""
    return dict(os.environ) | {"SITE": site, "TOKEN": token, "LC_ALL": "C.UTF-8", "NO_PROXY": "*"} | more


class Subscriber(Program):
    """One that subscribes, until the block ends; ready when the first subject has begun."""

    def __init__(
        self, command: list[str], site: str, *subjects: str, token: str = "", ready: str = "^subscribed ", **more: str
    ) -> None:
        argv = [*command, "subscribe", *subjects]
        super().__init__(argv, {}, f"(?m){ready}", 30, base=environment(site, token, **more))

    def events(self, name: str) -> list[str]:
        """The data of the events of a name, in their order."""
        return re.findall(rf"^{name} (\{{.*\}})$", self.output, re.MULTILINE)


def publish(command: list[str], site: str, *words: str, token: str = "") -> Program:
    """One that publishes; what it says is there when it has ended."""
    return Program([*command, "publish", *words], {}, "", 30, base=environment(site, token))
