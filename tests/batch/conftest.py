"""One Spark session for all tests of this folder: starting it takes some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import build


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real session, made as a job makes it."""
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    running = build("tests", **{"spark.driver.memory": "512m", "spark.sql.warehouse.dir": warehouse})
    yield running
    running.stop()
