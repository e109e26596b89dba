"""Spark without compiled plans: for frames of a few rows compiling costs more than all else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark.jobs.running import LIGHT


@pytest.fixture(scope="module", autouse=True)
def interpreted(session: SparkSession) -> Iterator[None]:
    """Import it into a module of tests: it holds for all of them."""
    names = [name for name in LIGHT if session.conf.isModifiable(name)]
    before = {name: session.conf.get(name, None) for name in names}
    for name in names:
        session.conf.set(name, LIGHT[name])
    yield
    for name, value in before.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)
