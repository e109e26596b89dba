"""What Spark asks of the class, and what it says where its Python lacks something."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_fastpath import DefaultSource
from spark.options import InvalidOption
from tests.support.sidecar import ROOT

SCHEMA = StructType([StructField("subject", StringType())])
ROWS = StructType([*SCHEMA, StructField("content", StringType())])
READ = {"url": "127.0.0.1:1", "subjects": "/a/*"}

WITHOUT = """
import sys
sys.modules["msgspec"] = None
from pyspark_fastpath import DefaultSource
print(DefaultSource.name())
DefaultSource({})
"""


def test_it_is_the_data_source_of_the_other_name() -> None:
    """Columns, both halves, and errors."""
    source = DefaultSource(READ)
    assert DefaultSource.name() == "fastpath"
    assert source.schema().startswith("subject string")
    assert isinstance(source.reader(SCHEMA), DataSourceReader)
    assert isinstance(source.streamReader(SCHEMA), DataSourceStreamReader)
    assert isinstance(DefaultSource({"url": "127.0.0.1:1"}).writer(ROWS, False), DataSourceArrowWriter)
    assert DefaultSource({"url": "127.0.0.1:1"}).streamWriter(ROWS, False)
    with pytest.raises(InvalidOption, match="only appends"):
        DefaultSource({"url": "127.0.0.1:1"}).writer(ROWS, True)


def test_it_can_be_imported_where_it_cannot_be_used() -> None:
    """Spark imports it for every data source of Python's, and a failure would be one of those others."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "fastpath\n", done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert f"the Python that Spark's driver asks, {sys.executable}, lacks what it needs" in last
    assert 'pip install "django-fastpath[spark]" there' in last
