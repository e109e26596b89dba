"""A writer and a reader on their way to a worker: with the packages they are there, without them it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StringType, StructField, StructType

from spark.options import SinkOptions
from spark.sink.sink import BatchWriter, StreamWriter
from spark.source.options import SourceOptions
from spark.source.source import BatchReader, StreamReader
from tests.support.sidecar import ROOT

SCHEMA = StructType([StructField("subject", StringType()), StructField("content", StringType())])
READ = StructType([StructField("subject", StringType())])
SINK = SinkOptions.parse({"url": "127.0.0.1:1"})
SOURCE = SourceOptions.parse({"url": "127.0.0.1:1", "subjects": "/a/b"}, streaming=False)
TRAVELLERS = [
    BatchWriter(SCHEMA, SINK),
    StreamWriter(SCHEMA, SINK),
    BatchReader(READ, SOURCE),
    StreamReader(READ, SOURCE),
]

ARRIVE = "import sys; from pyspark import cloudpickle; print(type(cloudpickle.load(sys.stdin.buffer)).__name__)"


def arrive(traveller: Any, folder: Path, path: str) -> subprocess.CompletedProcess[bytes]:
    """What another Python makes of it that imports from ``path``, besides PySpark."""
    paths = os.pathsep.join([path, str(Path(pyspark.__file__).parents[1])])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-c", ARRIVE],
        cwd=folder,
        env=environment | {"PYTHONPATH": paths},
        input=cloudpickle.dumps(traveller),
        capture_output=True,
    )


@pytest.mark.parametrize("traveller", TRAVELLERS, ids=lambda traveller: type(traveller).__name__)
def test_a_worker_that_lacks_the_packages_says_what_to_install(traveller: Any, tmp_path: Path) -> None:
    """Its Python has others of these names, or none at all; nothing of the state is looked for before."""
    there = arrive(traveller, tmp_path, str(ROOT))
    assert there.stdout.decode().strip() == type(traveller).__name__, there.stderr
    away = arrive(traveller, tmp_path, str(tmp_path))
    last = away.stderr.decode().strip().splitlines()[-1]
    assert last.startswith(
        f"RuntimeError: Spark's Python worker here runs {sys.executable}, which cannot load Fastpath"
    )
    assert "(No module named 'spark')" in last
    assert 'pip install "django-fastpath[spark]" there' in last


def test_what_it_knows_arrives_with_it() -> None:
    writer = TRAVELLERS[0]
    assert vars(cloudpickle.loads(cloudpickle.dumps(writer)))["_options"] == SINK


PROGRAM = """
import sys
from pyspark import cloudpickle
from pyspark.sql.types import StringType, StructField, StructType
from spark.options import SinkOptions
from spark.sink.sink import StreamWriter

class Own(StreamWriter):
    pass

schema = StructType([StructField(name, StringType()) for name in ("subject", "content")])
sys.stdout.buffer.write(cloudpickle.dumps(Own(schema, SinkOptions.parse({"url": "127.0.0.1:1"}))))
"""


def test_a_class_of_a_program_or_a_notebook_travels_with_its_code(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, check=True, env=os.environ | {"PYTHONPATH": ""}
    )
    there = subprocess.run(
        [sys.executable, "-c", ARRIVE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=made.stdout,
        capture_output=True,
    )
    assert there.stdout.decode().strip() == "Own", there.stderr
