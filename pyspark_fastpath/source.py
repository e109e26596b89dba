"""The class that Spark looks for, and asks for ``format("fastpath")``."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """``format("fastpath")``, which is ``format("realtime")`` of spark.datasource.

    Spark makes one for each read and write; raises ImportError where its Python lacks what that needs.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._source = _loaded()(options)

    @classmethod
    def name(cls) -> str:
        """Return the name to give to `format`."""
        return "fastpath"

    def schema(self) -> str:
        """Return the columns of a read."""
        return str(self._source.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `session.read`; raise spark.options.InvalidOption."""
        return self._source.reader(schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `session.readStream`; raise spark.options.InvalidOption."""
        return self._source.streamReader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write`; raise spark.options.InvalidOption or spark.sink.rows.InvalidColumns."""
        return self._source.writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer for `df.writeStream`; raise as `writer` does."""
        return self._source.streamWriter(schema, overwrite)


def _loaded() -> Any:
    try:
        # Late: Spark looks for this class also where another data source is meant, and no package is missed.
        from spark.datasource import FastpathSource  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f'format("fastpath"): the Python that Spark\'s driver asks, {sys.executable}, lacks what it needs '
            f'({error}): pip install "django-fastpath[spark]" there, or name a Python that has it in PYSPARK_PYTHON '
            "before the session is built"
        ) from None
    return FastpathSource
