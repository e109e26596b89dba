"""A Kafka broker of one node for tests and benchmarks, a program that writes into it, and Spark's connector."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from fastpath.java import find_java
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
FEED = Path(__file__).with_name("spark") / "Feed.java"

_MEMORY = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@cache
def _fetched() -> tuple[Path, Path]:
    """The folders of the broker's and the connector's jars; fetched where they are not there yet."""
    told = subprocess.run([str(ROOT / "tools" / "kafka.sh")], capture_output=True, text=True, check=False)
    if told.returncode:
        raise AssertionError(told.stderr)
    broker, connector = told.stdout.split()[-2:]
    return Path(broker), Path(connector)


def connector_jars() -> str:
    """What ``spark.jars`` needs, with commas."""
    return ",".join(str(path) for path in sorted(_fetched()[1].glob("*.jar")))


def _java(*words: str, paths: str) -> list[str]:
    return [str(find_java().home / "bin" / "java"), *_MEMORY, "-cp", paths, *words]


class Broker:
    """``with Broker() as broker:``; ``broker.servers`` is its address, the same after ``kill()`` and ``start()``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        port, controller = free_port(), free_port()
        self.servers = f"127.0.0.1:{port}"
        self._settings = self._folder / "server.properties"
        self._settings.write_text(
            "\n".join(
                (
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@127.0.0.1:{controller}",
                    f"listeners=PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
                    f"advertised.listeners=PLAINTEXT://{self.servers}",
                    "controller.listener.names=CONTROLLER",
                    f"log.dirs={self._folder / 'logs'}",
                    "offsets.topic.replication.factor=1",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "group.initial.rebalance.delay.ms=0",
                    "num.network.threads=1",
                    "num.io.threads=2",
                )
            )
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self._folder / "log"

    def __enter__(self) -> Self:
        jars = f"{_fetched()[0]}/*"
        words = ("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._settings))
        subprocess.run(_java("kafka.tools.StorageTool", *words, paths=jars), check=True, capture_output=True)
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> Self:
        """Start it and wait until it serves; AssertionError with its log when it does not."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                _java("kafka.Kafka", str(self._settings), paths=f"{_fetched()[0]}/*"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(self._up, 6 * PATIENCE_SECONDS)
        return self

    def _up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the broker ended:\n{self._log.read_text(errors='replace')[-4000:]}")
        host, port = self.servers.split(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            return False
        return True


class Feed:
    """``with Feed(broker, "prices", partitions=4) as feed:`` creates the topic; ``feed.write(100)`` records into it."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        compiler = [*jars.glob("janino-*.jar"), *jars.glob("commons-compiler-*.jar")]
        paths = os.pathsep.join([*map(str, compiler), f"{_fetched()[0]}/*"])
        words = (str(FEED), "Feed", broker.servers, topic, str(partitions))
        self._argv = _java("org.codehaus.janino.SimpleCompiler", *words, paths=paths)
        self._process: subprocess.Popen[str] | None = None
        self.written = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._hear("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()

    def begin(self, count: int, rate: float = 0) -> None:
        """Write records beside what follows; ``end()`` waits until they are."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rate} {count}\n")
        self._process.stdin.flush()
        self.written += count

    def end(self) -> None:
        """All that was begun is in the topic."""
        self._hear(f"done {self.written}")

    def write(self, count: int) -> None:
        """Write records, as fast as it goes."""
        self.begin(count)
        self.end()

    def _hear(self, wanted: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == wanted:
                return
        raise AssertionError(f"the feed ended before it said {wanted!r}")
