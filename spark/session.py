"""Builds a light local Spark session that knows the data source `realtime`, or teaches it to a session of your own."""

from __future__ import annotations

import atexit
import json
import logging
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from spark.datasource import SOURCES
from spark.java import find_java_home
from spark.shipping import ROOT, ship

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MASTER_VARIABLE = "REALTIME_SPARK_MASTER"
CONF_VARIABLE = "REALTIME_SPARK_CONF"
"""Spark settings as a JSON object, which win over a job's own: how `manage.py spark_job` hands on its options."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Between the JVM and its Python workers: a file that only this user can open, instead of a TCP port.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": "4s",
}
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Settings where master and executors are on this machine: nobody else reaches the driver."""
LOCAL = LOOPBACK | {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
CLUSTER = {"spark.sql.shuffle.partitions": "8"}
"""Spark's own 200 are 200 stores of state in each query, all opened and closed in each batch."""
LOG_FILE = "log4j2.properties"
LOG_PROPERTY = "log4j2.configurationFile"
JAVA_OPTIONS = "-Xss64m -XX:+UseSerialGC"
"""`-Xss64m`: what a function of foreachBatch raises, as each does that a stop interrupts, Spark 4.3 searches with a
pattern that takes some 500 bytes of stack for each character, and such an error has tens of thousands. Only what a
thread has used of its stack takes memory."""


WORKER_MODULES = ("pyspark", "pyarrow", "msgspec")
"""Modules that a Python worker imports for the data source, apart from `spark` and `fastpath`, which are sent to it."""


class ConnectRefused(ValueError):
    """Spark Connect was asked for; the text says what to do instead."""


class WorkersLack(ValueError):
    """Spark's Python workers could not run the data source; the text says what to do."""


def build(app_name: str = "realtime", **conf: Any) -> SparkSession:
    """Build a Spark session with the data source `realtime` registered: `build("bars", **{"spark.executor.cores":
    "2"})`.

    Each keyword is a Spark setting and wins over ours, those of REALTIME_SPARK_CONF win over both, and those of
    `spark-submit` over all. The master is that of these, of REALTIME_SPARK_MASTER, or `local[2]`. If this process has a
    session already, that one is returned, with the data source registered. Raises fastpath.java.JavaNotFound,
    ConnectRefused, WorkersLack.
    """
    given = {name: str(value) for name, value in conf.items()} | json.loads(os.environ.get(CONF_VARIABLE) or "{}")
    _refuse_connect(given)
    own = SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    given |= _submitted()
    master = given.setdefault("spark.master", os.environ.get(MASTER_VARIABLE) or "local[2]")
    local = master.startswith("local") and not master.startswith("local-cluster")
    settings = SETTINGS | (LOCAL if local else CLUSTER | (LOOPBACK if "://127.0.0.1:" in master else {}))
    settings |= {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "realtime-warehouse")} | given
    if local:
        # Only for local disks: the default manager starts a process (chmod) for each file it writes.
        settings.setdefault("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
    log = f"-D{LOG_PROPERTY}={_log_file().as_uri()}"
    extra = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{log} {JAVA_OPTIONS} {extra}".strip()
    settings.setdefault("spark.executorEnv.PYTHONPATH", _python_path())
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment("spark.driver.host" in settings):
        session = builder.getOrCreate()
    if own:
        register(session)
    else:
        if not local:
            ship(session)
        _teach(session)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call otherwise
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True  # pages of JSON about an error that is raised all the same
    _without_ends(session.sparkContext)
    return session


def register(session: SparkSession) -> None:
    """Teach a session that was built elsewhere the data source: `format("realtime")`, or `format("fastpath")`.

    The packages `spark` and `fastpath` are sent to its Python workers, wherever they run. With a master `local` these
    run with this process' Python, unless PYSPARK_PYTHON names another. Raises WorkersLack where that one lacks what the
    data source needs, and ConnectRefused for a session over Spark Connect.
    """
    if not isinstance(session, SparkSession) or not hasattr(session, "_jsc"):
        raise ConnectRefused(
            "a session over Spark Connect has no driver here to send the packages from: install them where its server "
            "runs, and register spark.datasource.RealtimeSource"
        )
    context = session.sparkContext
    if context.master.startswith("local"):
        if "PYSPARK_PYTHON" not in os.environ:
            # What Spark asks for each worker that it starts; else it is the first `python3` on PATH.
            context.pythonExec = sys.executable
        check_worker(context.pythonExec)
    ship(session)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        _quiet(session)
    _teach(session)


def _teach(session: SparkSession) -> None:
    for source in SOURCES:
        session.dataSource.register(source)


def check_worker(python: str, modules: Sequence[str] = WORKER_MODULES) -> None:
    """Raise WorkersLack where a Python has not all of these: each query would fail with a trace of Spark's."""
    program = f"import importlib.util as u; print(*(n for n in {tuple(modules)!r} if u.find_spec(n) is None))"
    try:
        # Not where we are: the caller's folder is not on the path of a worker.
        told = subprocess.run([python, "-c", program], cwd="/", capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise WorkersLack(f"Spark's Python workers cannot run {python}: {error}. {_REMEDY}") from None
    if lacking := told.split():
        where = shutil.which(python) or python
        raise WorkersLack(f"Spark's Python workers run {where}, which has no {' and no '.join(lacking)}. {_REMEDY}")


_REMEDY = f"Set PYSPARK_PYTHON to a Python that has all, such as {sys.executable}, before the session is built."


def _log_file() -> Path:
    """Return what configures the JVM's log; write it out where the packages were imported from an archive."""
    beside = Path(__file__).with_name(LOG_FILE)
    if beside.is_file():
        return beside
    folder = Path(tempfile.mkdtemp(prefix="realtime-log-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    written = folder / LOG_FILE
    written.write_bytes(pkgutil.get_data("spark", LOG_FILE) or b"")
    return written


def _quiet(session: SparkSession) -> None:
    """Give our log to the JVM that runs already under spark-submit, with Spark's, unless somebody chose another."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    if jvm.java.lang.System.getProperty(LOG_PROPERTY) is None:
        uri = jvm.java.net.URI(_log_file().as_uri())
        jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure(uri)


def _without_ends(context: SparkContext) -> None:
    """Keep the end of a connection quiet: a stop that interrupts a task closes one to PySpark's server for
    accumulators, which would tell that with a trace; a new one is made for the next task."""
    server = context._accumulatorServer
    handle_error = type(server).handle_error

    def handle(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            handle_error(server, request, client_address)

    server.handle_error = handle


def _refuse_connect(given: Mapping[str, str]) -> None:
    """Refuse a Connect session, which has no driver here: nothing could be sent to the executors, nor a job ended in
    order."""
    master = given.get("spark.master", os.environ.get(MASTER_VARIABLE, ""))
    if (
        "spark.remote" in given
        or master.startswith("sc://")
        or given.get("spark.api.mode", "").lower() == "connect"
        or os.environ.get("SPARK_REMOTE")
        or os.environ.get("SPARK_CONNECT_MODE_ENABLED")
    ):
        raise ConnectRefused(
            "these jobs run in a driver of their own, not over Spark Connect: unset SPARK_REMOTE and "
            "SPARK_CONNECT_MODE_ENABLED, and name the cluster's master instead, such as spark://host:7077"
        )


def _submitted() -> dict[str, str]:
    """Return what `spark-submit` was given, whose JVM runs already; nothing in a process that was started otherwise."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ or SparkContext._active_spark_context is not None:
        return {}
    SparkContext._ensure_initialized()
    return {name: value for name, value in SparkConf().getAll() if name != "spark.app.name"}


def _python_path() -> str:
    """Return this repository first, then what the caller has: Spark's workers import `spark` and `fastpath` by name."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, given)]))


@contextmanager
def _environment(loopback: bool) -> Iterator[None]:
    """Set what the JVM and the Python workers that it starts must find in their environment; put ours back after."""
    wanted = {"PYTHONPATH": _python_path()}
    # Without it the workers run the first `python3` on PATH, which may be one without pyspark.
    wanted |= {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # under spark-submit the JVM runs already
        wanted["JAVA_HOME"] = str(find_java_home())
        if loopback:
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
