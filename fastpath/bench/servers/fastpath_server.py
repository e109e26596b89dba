"""Starts and stops the servers that are measured: the sidecar with rights and all, and the bare C program beside it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt

from fastpath.client.control.client import Control

from ..load.sockets import BenchError
from ..machine.processes import family, free_ports, settle, stop
from ..machine.procfs import cpu_ns

READY_SECONDS_MAX = 30
TOKEN_HOURS = 24
GENERATION = 1

PLACES = ("control", "listen", "data", "engine")
"""Settings that only say where something is."""

SUBSCRIBERS = "subscribers"
PUBLISHER = "publisher"
"""The group that may subscribe, and the user that may publish."""

RULES = [
    {"id": 1, "who": f"group:{SUBSCRIBERS}", "pattern": "/**", "action": "subscribe", "allow": True},
    {"id": 2, "who": f"user:{PUBLISHER}", "pattern": "/**", "action": "publish", "allow": True},
]


@dataclass
class MeasuredServer:
    """A sidecar that accepts connections; ``settings`` are what it was told besides its defaults."""

    name: str
    host: str
    port: int
    pids: list[int]
    publisher_port: int = 0
    control: str = ""
    secret: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    log: Path | None = None
    ready_s: float = 0
    """Seconds from the server's start until it said that it is ready."""
    ready_cpu_s: float = 0
    """The CPU time that this took."""

    def token(self, number: int) -> str:
        """Return a subscriber's token; each subscriber has its own user."""
        return mint(self.secret, f"user{number}", [SUBSCRIBERS]) if self.secret else ""

    def publisher_token(self) -> str:
        """Return the publisher's token."""
        return mint(self.secret, PUBLISHER, []) if self.secret else ""


def mint(secret: str, user: str, groups: list[str], algorithm: str = "HS256") -> str:
    """Return a token of protocol.md 8.4."""
    now = int(time.time())
    claims = {"aud": "fastpath", "sub": user, "uid": user, "groups": groups, "su": False, "gen": GENERATION}
    return jwt.encode(claims | {"iat": now, "exp": now + TOKEN_HOURS * 3600}, secret, algorithm=algorithm)


@contextlib.contextmanager
def sidecar(
    core: int | None,
    *,
    mode: str = "rules",
    workers: int = 1,
    tls: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[MeasuredServer]:
    """Run `python -m fastpath` on free ports with rights in force, pinned to a core; raise BenchError when it does not
    start.

    Statistics, pings, queue bounds and guaranteed delivery are on by default, and stay so. A journal is in a folder
    that goes when the server has ended, unless ``settings`` name another one.
    """
    folder = Path(tempfile.mkdtemp(prefix="fp-bench-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        secret = secrets.token_urlsafe(32) if mode == "rules" else ""
        shown = {
            "listen": "clients://127.0.0.1:0,publishers://127.0.0.1:0",
            "control": str(folder / "control"),
            "mode": mode,
            "delivery": "guaranteed",
            "workers": str(workers),
        }
        if tls:
            cert = _certificate(folder)
            shown["listen"] = f"clients+tls://127.0.0.1:0?cert={cert},publishers://127.0.0.1:0"
        shown |= {name.lower(): str(value) for name, value in (settings or {}).items()}
        if shown.get("journal", "off") != "off":
            shown.setdefault("data", str(folder / "data"))
        begin = time.monotonic()
        process, ready = _start(folder, core, shown | ({"token_secret": secret} if secret else {}))
        took = time.monotonic() - begin
        pids = family(process.pid)
        spent = cpu_ns(pids) / 1e9
        if secret:
            _grant(shown["control"])
        port, publisher_port = (int(ready[purpose][0].rpartition(":")[2]) for purpose in ("clients", "publishers"))
        names = {f"FASTPATH_{name.upper()}": value for name, value in shown.items() if name not in PLACES}
        names["FASTPATH_LISTEN"] = "clients+tls and publishers" if tls else "clients and publishers"
        server = MeasuredServer("fastpath", "127.0.0.1", port, pids, publisher_port, shown["control"], secret, names)
        server.log, server.ready_s, server.ready_cpu_s = folder / "log", took, spent
        yield server
        if process.poll() is not None:
            raise BenchError(f"the sidecar ended while it was measured: {_tail(folder / 'log')}")
    finally:
        if process is not None:
            stop(process)
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def floor(program: str, coalesce: bool, core: int | None) -> Iterator[MeasuredServer]:
    """Run the bare C program on a free port; raise BenchError when it does not listen."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [program, str(port), "1" if coalesce else "0"], stdin=subprocess.DEVNULL, preexec_fn=settle(core)
    )
    try:
        end = time.monotonic() + READY_SECONDS_MAX
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise BenchError(f"the floor {program} does not listen on port {port}")
            time.sleep(0.02)
        yield MeasuredServer("floor", "127.0.0.1", port, [process.pid])
    finally:
        stop(process)


def _start(folder: Path, core: int | None, settings: dict[str, str]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    environment |= {f"FASTPATH_{name.upper()}": value for name, value in settings.items()}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "fastpath"],
            cwd=Path(__file__).parents[3],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            preexec_fn=settle(core),
        )
    assert process.stdout is not None
    line = b""
    end = time.monotonic() + READY_SECONDS_MAX
    while b"\n" not in line:
        readable = select.select([process.stdout], [], [], max(0, end - time.monotonic()))[0]
        chunk = os.read(process.stdout.fileno(), 65536) if readable else b""
        if not chunk:
            stop(process)
            raise BenchError(f"the sidecar did not start: {_tail(log)}")
        line += chunk
    return process, json.loads(line.split(b"\n")[0].removeprefix(b"ready "))


def _grant(control: str) -> None:
    with Control(control, timeout_seconds=10, client="bench/1") as connection:
        connection.hello()
        connection.rules_begin(GENERATION)
        connection.rules_chunk(rules=RULES)
        connection.rules_commit(GENERATION)


def _certificate(folder: Path) -> Path:
    """Return a certificate of the server's own making, with its key in the same file; openssl makes it."""
    path = folder / "tls.pem"
    key = folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    try:
        subprocess.run(
            [*command, "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(path)],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"--tls needs the program openssl to make a certificate: {error}") from None
    path.write_text(path.read_text() + key.read_text())
    return path


def _listens(port: int) -> bool:
    """Return whether somebody listens there, from /proc: a connection would be one of those that are counted."""
    wanted = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        parts = line.split()
        if parts[3] == "0A" and parts[1].endswith(wanted):
            return True
    return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-800:].strip() or "it wrote nothing"
