"""One real Redis server, one real Sentinel, on loopback."""

from __future__ import annotations

import atexit
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.certificates import Certificate
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, until

NAME = "fp"
"""Under which name the Sentinels watch the primary."""

ENDED = (redis.RedisError, OSError)
"""What a call to a server raises that is not there, or not yet."""


class Server:
    """A ``redis-server`` process with its folder; the base of the two kinds below."""

    arguments: Sequence[str] = ()

    def __init__(self, *, password: str = "", certificate: Certificate | None = None, port: int = 0) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fp-redis-"))
        self.port = port or free_port()
        self.password = password
        self.certificate = certificate
        self.process: subprocess.Popen[bytes] | None = None
        self.conf = self.folder / "redis.conf"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return "127.0.0.1", self.port

    @property
    def pid(self) -> int:
        """The process id; it changes with every start."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """What the server wrote to its log so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self) -> None:
        """Start the process; it answers a few ms later."""
        self.process = subprocess.Popen(
            ["redis-server", str(self.conf), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.kill)

    def start(self) -> Self:
        """Start the process and wait until it answers."""
        self.launch()
        until(self.answers)
        return self

    def answers(self) -> bool:
        """Whether it answers to PING; AssertionError with its log when its process has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"redis-server ended:\n{self.log}"
        try:
            return bool(self.call("PING"))
        except ENDED:
            return False

    def call(self, *command: Any, user: str = "", seconds: float = 2) -> Any:
        """Send one command and return the parsed answer; raises one of ``ENDED``."""
        tls = {} if self.certificate is None else {"ssl": True, "ssl_ca_certs": str(self.certificate.cert)}
        with redis.Redis(
            "127.0.0.1",  # a bare machine knows no name
            port=self.port,
            username=user or None,
            password=self.password or None,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,
            **tls,
        ) as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """The process dies at once, as at a crash; also when it is frozen."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The process stops cleanly."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """The process runs no further (SIGSTOP), its connections stay open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """A frozen process runs on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        atexit.unregister(self.kill)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()

    def listening(self) -> list[str]:
        """The lines of its configuration that say where it listens."""
        if self.certificate is None:
            return [f"port {self.port}"]
        return [
            "port 0",
            f"tls-port {self.port}",
            f"tls-cert-file {self.certificate.cert}",
            f"tls-key-file {self.certificate.key}",
            f"tls-ca-cert-file {self.certificate.cert}",
            "tls-auth-clients no",
            "tls-replication yes",
        ]


SYNCED = {"appendfsync": "always"}
"""For who kills a server and expects all of what it acknowledged: else a disk that is busy keeps some from the file."""


class RedisServer(Server):
    """One Redis as docs/operate/cluster.md wants it: append-only file, never evicting.

    ``options`` are lines of redis.conf by their first word, such as ``{"maxmemory": "3mb"}``; ``users`` may log in with
    the same password.
    """

    def __init__(
        self,
        *,
        password: str = "",
        certificate: Certificate | None = None,
        replica_of: RedisServer | None = None,
        user: str = "",
        users: Iterable[str] = (),
        options: dict[str, str] | None = None,
    ) -> None:
        super().__init__(password=password, certificate=certificate)
        lines = {
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "logfile": str(self.folder / "log"),
            "save": '""',
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory": "512mb",
            "maxmemory-policy": "noeviction",
            "replica-serve-stale-data": "no",
            "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": "0",
            "repl-diskless-load": "swapdb",
            "repl-backlog-size": "64mb",
            "repl-ping-replica-period": "1",
            "repl-timeout": "10",
        }
        if password:
            lines |= {"requirepass": password, "masterauth": password}
        if user:
            lines["masteruser"] = user
        if replica_of is not None:
            lines["replicaof"] = f"127.0.0.1 {replica_of.port}"
        lines |= options or {}
        text = [*self.listening(), *(f"{name} {value}" for name, value in lines.items())]
        text += [f"user {name} on >{password} ~* &* +@all" for name in users]
        self.conf.write_text("\n".join(text) + "\n")

    @property
    def url(self) -> str:
        """The address as the setting ``engine`` takes it."""
        return self.url_for("")

    def url_for(self, user: str) -> str:
        """The same with the name of a user."""
        login = f"{user}:{self.password}@" if self.password else ""
        scheme, option = ("redis", "") if self.certificate is None else ("rediss", f"?ca={self.certificate.cert}")
        return f"{scheme}://{login}127.0.0.1:{self.port}{option}"

    def restart(self, *, empty: bool = False) -> Self:
        """Kill the process if it runs, and start it with its data or, ``empty``, without any."""
        self.kill()
        if empty:
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
            for file in (*self.folder.glob("*.aof"), *self.folder.glob("*.rdb")):
                file.unlink()
        return self.start()

    @property
    def role(self) -> str:
        """``master`` or ``slave``; empty when it does not answer."""
        try:
            return str(self.call("ROLE", seconds=0.5)[0])
        except ENDED:
            return ""


class SentinelServer(Server):
    """One Sentinel; ``conf`` is written by the topology, which knows the others."""

    arguments = ("--sentinel",)

    def __init__(self, *, password: str = "", certificate: Certificate | None = None) -> None:
        super().__init__(password=password, certificate=certificate)
        self.id = f"{random.getrandbits(160):040x}"

    def primary(self) -> tuple[str, int]:
        """The primary that this Sentinel names."""
        host, port = self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME, seconds=0.5)
        return host, int(port)

    def figures(self, *command: str) -> list[dict[str, str]]:
        """The answer of a SENTINEL command that lists servers."""
        answer = self.call("SENTINEL", *command)
        rows = answer if command[0].upper() != "MASTER" else [answer]
        return [dict(zip(row[::2], row[1::2], strict=True)) if isinstance(row, list) else row for row in rows]
