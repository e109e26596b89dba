"""Programs that the pages print whole: a recording that is read, a responder of a project, a job of Spark."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fastpath.client import NoResponders, RequestFailed, ResponderGone
from fastpath.client.blocking import connect
from tests.support.documentation.running import Run, here
from tests.support.guide import Project, one
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

RECORDING = "docs/develop/recording.md"


def test_a_recording_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the page shows."""
    monkeypatch.chdir(tmp_path)
    with gzip.open("day.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(one(RECORDING, "json", '"type":"recording"'))
    run = Run(one(RECORDING, "python", "Reader("), {}).now()
    assert [line.split()[1:3] for line in run.printed] == [["/a/x", "first"], ["/a/x", "0"], ["/a/std", "s"]]


PRICES = """
from django.db import models


class Price(models.Model):
    symbol = models.CharField(max_length=9)
    last = models.DecimalField(max_digits=9, decimal_places=2)
"""


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_responder_of_a_project(tmp_path: Path) -> None:
    """docs/develop/request-reply.md: a reply out of the project's database, and an error of its own."""
    project = Project(tmp_path, 'INSTALLED_APPS += ["quotes"]')
    text = one("docs/develop/request-reply.md", "python", "@respond")
    (tmp_path / "quotes").mkdir()
    project.append("quotes/__init__.py", "")
    project.append("quotes/models.py", PRICES)
    project.append("quotes/responders.py", f"from quotes.models import Price\n{text}")
    project.manage("makemigrations", "quotes", "-v0")
    project.manage("migrate", "-v0")
    project.shell("from quotes.models import Price; Price.objects.create(symbol='IBM', last='193.20')")
    for action in ("subscribe", "publish"):
        rule = f"Rule.objects.create(everyone=True, pattern='/quotes/*', action='{action}')"
        project.shell(f"from entitlement.models import Rule; {rule}")
    with project.running() as site, connect(site.client_url) as client:

        def reply() -> Any:
            try:
                return client.request("/quotes/get", "IBM").content
            except (NoResponders, ResponderGone):
                return None

        assert until(reply, 60) == "193.20"
        with pytest.raises(RequestFailed, match="there is no T"):
            client.request("/quotes/get", "T")


SURROUNDINGS = {
    "PYTHONPATH": str(ROOT),
    "REALTIME_PUBLISH_TOKEN": "any",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}
FRAME = """
from spark.session import build
df = build("frames").readStream.format("rate").load().selectExpr(
    "'/readme/one' as subject", "cast(value as string) as content"
)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_the_frame_of_the_readme(tmp_path: Path) -> None:
    """It is the reader's, and so are the token and the path; the program goes on until it is ended."""
    with Sidecar(mode="none") as sidecar, connect(sidecar.client_url) as client:
        text = here(one("README.md", "python", "df.writeStream"), sidecar)
        given = f"token, path = 'any', {str(tmp_path / 'checkpoint')!r}\n"
        (tmp_path / "job.py").write_text(f"{FRAME}{given}{text}session.streams.awaitAnyTermination()\n")
        with (
            Program([sys.executable, "job.py"], SURROUNDINGS, "", folder=tmp_path, base=os.environ) as program,
            client.subscribe("/readme/one") as stream,
        ):
            assert stream.get(200).content.isdigit(), program.output


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_job_of_spark(tmp_path: Path) -> None:
    """docs/develop/spark.md, the job in ten minutes; it goes on until it is ended."""
    with Sidecar(mode="none") as sidecar, connect(sidecar.client_url) as client:
        text = here(one("docs/develop/spark.md", "python", 'build("my job")'), sidecar)
        (tmp_path / "job.py").write_text(text)
        with (
            Program([sys.executable, "job.py"], SURROUNDINGS, "", folder=tmp_path, base=os.environ) as program,
            client.subscribe("/stocks/us/*") as stream,
        ):
            messages = [stream.get(200) for _ in range(2)]
            assert {message.subject for message in messages} <= {"/stocks/us/IBM", "/stocks/us/T"}, program.output
            assert all(100 <= float(message.content) <= 101 for message in messages)
