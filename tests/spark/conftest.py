"""One Spark session for all tests of this folder: starting it takes some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.jobs import live
from spark.session import build


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real session, made as a job makes it."""
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    running = build("tests", **{"spark.driver.memory": "512m", "spark.sql.warehouse.dir": warehouse})
    yield running
    running.stop()


@pytest.fixture
def light(session: SparkSession) -> Iterator[SparkSession]:
    """The session with the settings that the jobs give theirs for small batches (spark.jobs.running.LIGHT)."""
    wanted = {name: value for name, value in live.SETTINGS.items() if session.conf.isModifiable(name)}
    before = {name: session.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    yield session
    for name, value in before.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What interrupts a call into the JVM breaks the session for all tests after it: they get much time."""
    folder = Path(__file__).parent.relative_to(config.rootpath).as_posix()
    for item in items:
        if item.nodeid.startswith(f"{folder}/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))
