"""The PySpark data source `realtime`, also called `fastpath`: what these formats read and write."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from spark.options import InvalidOption, SinkOptions
from spark.sink.sink import BatchWriter, StreamWriter
from spark.source.columns import ddl
from spark.source.options import SourceOptions
from spark.source.source import BatchReader, StreamReader


class RealtimeSource(DataSource):
    """`format("realtime")`; the options of a write are those of spark.options.OPTIONS, of a read those of
    spark.source.options.SOURCE_OPTIONS."""

    @classmethod
    def name(cls) -> str:
        """Return the name to give to `format`."""
        return "realtime"

    def schema(self) -> str:
        """Return the columns of a read, unless some are asked for with `.schema(…)`."""
        return ddl(SourceOptions.parse(self.options, streaming=True).fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `session.read`; raise InvalidOption."""
        return BatchReader(schema, SourceOptions.parse(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `session.readStream`; raise InvalidOption."""
        return StreamReader(schema, SourceOptions.parse(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write`; raise InvalidOption or spark.sink.rows.InvalidColumns."""
        if overwrite:
            raise InvalidOption('this format only appends, what is published cannot be taken back: .mode("append")')
        return BatchWriter(schema, SinkOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer for `df.writeStream`; in output mode complete each trigger publishes the whole result
        again."""
        return StreamWriter(schema, SinkOptions.parse(self.options))


class FastpathSource(RealtimeSource):
    """The same under the name that Spark finds by itself where the distribution is installed (pyspark_fastpath)."""

    @classmethod
    def name(cls) -> str:
        """Return the name to give to `format`."""
        return "fastpath"


SOURCES = (RealtimeSource, FastpathSource)
