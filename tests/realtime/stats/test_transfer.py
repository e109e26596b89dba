"""The statistics as files: each bucket once, taken back where less is known, never beside a collector."""

from __future__ import annotations

import gzip
import json
import time
from io import StringIO
from pathlib import Path
from statistics import fmean, pvariance

import pytest
from django.core.management import CommandError, call_command

from realtime.models import StatisticsBucket, StatisticsState
from realtime.stats import read, transfer
from realtime.stats.store import Store
from realtime.stats.timeline import Timeline
from realtime.stats.windows import DAY, HOUR, MINUTE

pytestmark = pytest.mark.django_db(transaction=True)
GOOD = {"size": 60, "start": 60, "values": {"connections": [1.0, 2.0, 0.0, 2.0]}}
NOW = int(time.time()) // DAY * DAY - 7 * HOUR


def collect(*samples: tuple[int, float]) -> None:
    """As a collector does: connections at some seconds, complete up to the last."""
    store = Store()
    saved = store.claim()
    assert saved is not None
    for second, value in samples:
        saved.history.add(second, {"connections": value})
    store.save(saved.history, Timeline(samples[-1][0]))
    store.release()


def lines(path: Path) -> list[tuple[int, int, list[float]]]:
    with gzip.open(path, "rt") as file:
        found = [json.loads(line) for line in file]
    assert all(list(one["values"]) == ["connections"] for one in found)
    return [(one["size"], one["start"], one["values"]["connections"]) for one in found]


def command(*words: str) -> str:
    out = StringIO()
    call_command("realtime_statistics", *words, stdout=out)
    return out.getvalue().strip()


def test_each_complete_bucket_is_exported_once(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    assert command("export", str(folder)) == "There is nothing new."
    collect((NOW, 4.0), (NOW + 1, 6.0), (NOW + 60, 1.0), (NOW + 119, 1.0), (NOW + 120, 9.0))
    assert command("export", str(folder)).startswith("2 buckets are in ")
    (first,) = folder.glob("*")
    assert lines(first) == [(60, NOW, [2.0, 5.0, 2.0, 6.0]), (60, NOW + 60, [2.0, 1.0, 0.0, 1.0])]
    assert command("export", str(folder)) == "There is nothing new."
    collect((NOW + 121, 7.0), (NOW + HOUR - 1, 3.0))
    command("export", str(folder))
    (second,) = set(folder.glob("*")) - {first}
    values = [4.0, 6.0, 1.0, 1.0, 9.0, 7.0, 3.0]
    found = lines(second)
    assert [one[:2] for one in found] == [(60, NOW + 120), (60, NOW + HOUR - 60), (3600, NOW)]
    assert found[-1][2] == pytest.approx([7.0, fmean(values), 7 * pvariance(values), 9.0])
    assert second.name > first.name


def test_what_is_imported_is_what_was_exported(tmp_path: Path) -> None:
    now = int(time.time()) // MINUTE * MINUTE
    collect(*((now - back, float(back % 13)) for back in range(3000, 60, -1)), (now - 1, 5.0))
    command("export", str(tmp_path))
    before = read.newest(["connections"])["connections"]
    StatisticsBucket.objects.all().delete()
    StatisticsState.objects.all().delete()
    (path,) = tmp_path.glob("*")
    count = len(lines(path))
    assert command("import", str(path)) == f"{count} of {count} buckets were new or told of more."
    assert command("import", str(path)) == f"0 of {count} buckets were new or told of more."
    StatisticsState.objects.update(through=now - 1)
    assert read.newest(["connections"])["connections"]["1h"] == before["1h"]


def test_only_where_less_is_known(tmp_path: Path) -> None:
    """A bucket of fewer samples changes nothing; one of more replaces it, for the names that it has."""
    collect((60, 1.0), (61, 2.0), (200, 1.0))
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(GOOD) + "\n")
    assert transfer.take([file]) == (0, 1)
    values = {"connections": [3.0, 8.0, 0.0, 8.0], "subjects": [1.0, 4.0, 0.0, 4.0], "unknown": [1.0, 1.0, 0.0, 1.0]}
    file.write_text(json.dumps(GOOD | {"values": values}) + "\n" + json.dumps(GOOD | {"start": 0}) + "\n")
    assert transfer.take([file]) == (2, 2)
    saved = Store().claim()
    assert saved is not None
    assert list(saved.history.buckets[MINUTE]) == [0, 1, 3]
    rows = {name: dict(saved.history.rows("1h", name, 240)) for name in ("connections", "subjects")}
    assert rows["connections"][60] == (3.0, 8.0, 0.0, 8.0)
    assert rows["subjects"][60] == (1.0, 4.0, 0.0, 4.0)
    assert rows["connections"][180][0] == 1


def test_a_file_with_a_fault_changes_nothing(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl.gz"
    for fault, why in (
        ({"size": 61, "start": 61}, "no bucket has 61 seconds"),
        ({"size": 1, "start": 61}, "no bucket has 1 seconds"),
        ({"start": 61}, "no bucket of 60 seconds begins at 61"),
        ({"values": {"connections": [1.0, 2.0, -1.0, 2.0]}}, "connections is none of"),
        ({"values": {"connections": [1.0, 1e999, 0.0, 2.0]}}, ""),
        ({"values": {"connections": [1.0]}}, "Expected"),
        ({"start": -60}, "Expected"),
    ):
        with gzip.open(bad, "wt") as file:
            file.write(json.dumps(GOOD) + "\n" + json.dumps(GOOD | fault) + "\n")
        with pytest.raises(CommandError, match=f"line 2: .*{why}"):
            command("import", str(bad))
    bad.write_bytes(bad.read_bytes()[:-9])
    with pytest.raises(CommandError):
        command("import", str(bad))
    good = bytearray(gzip.compress((json.dumps(GOOD) + "\n").encode() * 100))
    good[10] ^= 0x06  # the kind of its first block
    bad.write_bytes(good)
    with pytest.raises(CommandError, match="decompressing"):
        command("import", str(bad))
    assert not StatisticsBucket.objects.exists()


def test_nothing_is_imported_beside_a_collector(tmp_path: Path) -> None:
    file = tmp_path / "good.jsonl"
    file.write_text(json.dumps(GOOD) + "\n")
    collector = Store()
    assert collector.claim() is not None
    with pytest.raises(CommandError, match="a collector is at work: stop runrealtime"):
        command("import", "--wait", "0", str(file))
    assert not StatisticsBucket.objects.exists()
    collector.release()
    assert command("import", "--wait", "0", str(file)) == "1 of 1 buckets were new or told of more."
    # It is free for a collector again.
    assert Store().claim() is not None


def test_what_is_there_is_not_written_over_by_a_crash(tmp_path: Path) -> None:
    """A part of a file is no file: the next export goes on where the last whole one ended."""
    collect((NOW, 4.0), (NOW + 60, 6.0))
    (tmp_path / f".statistics-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(NOW + 61))}.jsonl.gz").write_bytes(b"half")
    path, count = transfer.export(tmp_path)
    assert path is not None
    assert count == len(lines(path)) == 1
    assert [one.name for one in tmp_path.glob("*")] == [path.name]
