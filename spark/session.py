"""Builds a light local Spark session that knows the data source `realtime`."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark.java import find_java_home
from spark.sink import RealtimeSource

ROOT = Path(__file__).resolve().parents[1]
SHIPPED_PACKAGES = ("fastpath", "spark")
CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Between the JVM and its Python workers: a file that only this user can open, instead of a TCP port.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": "4s",
}
JAVA_OPTIONS = "-Xss8m -XX:+UseSerialGC"
"""`-Xss8m`: stopping a query that uses foreachBatch overflows the default stack in Spark 4.3."""


def build(app_name: str = "realtime", **conf: Any) -> SparkSession:
    """A Spark session with the data source `realtime` registered: `build("bars", **{"spark.master": "local[4]"})`.

    Each keyword is a Spark setting and wins over ours. If this process has a session already, that one is returned,
    with the data source registered. Raises fastpath.java.JavaNotFound.
    """
    settings = SETTINGS | {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "realtime-warehouse")}
    settings |= {name: str(value) for name, value in conf.items()}
    local = settings["spark.master"].startswith("local")
    if local and not settings["spark.master"].startswith("local-cluster"):
        # Only for local disks: the default manager starts a process (chmod) for each file it writes.
        settings.setdefault("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
    log = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    extra = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{log} {JAVA_OPTIONS} {extra}".strip()
    settings.setdefault("spark.executorEnv.PYTHONPATH", _python_path())
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(local):
        session = builder.getOrCreate()
    if not local or settings["spark.master"].startswith("local-cluster"):
        _ship(session)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call otherwise
    session.dataSource.register(RealtimeSource)
    return session


def _python_path() -> str:
    """This repository first, then what the caller has: Spark's workers import `spark` and `fastpath` by name."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, given)]))


@contextmanager
def _environment(local: bool) -> Iterator[None]:
    """What the JVM and the Python workers that it starts must find in their environment; ours is put back after."""
    wanted = {"PYTHONPATH": _python_path()}
    # Without it the workers run the first `python3` on PATH, which may be one without pyspark.
    wanted |= {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # under spark-submit the JVM runs already
        wanted["JAVA_HOME"] = str(find_java_home())
        if local:
            # Else Java asks for the address of this machine's name, which a machine without /etc/hosts does not know.
            wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ship(session: SparkSession) -> None:
    """Send our packages to executors on other machines; these still need pyarrow and msgspec installed."""
    folder = Path(tempfile.mkdtemp(prefix="realtime-ship-"))
    archive = folder / "realtime_packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for package in SHIPPED_PACKAGES:
            for module in sorted((ROOT / package).rglob("*.py")):
                file.write(module, module.relative_to(ROOT))
    session.sparkContext.addPyFile(str(archive))
