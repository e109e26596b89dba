"""Dead letters: seen once the batch is committed, those of the attempts that count and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastpath.client.publisher.transactions import Committed
from spark.sink.dead_letters import Letters, drop, publish, refused_late


def letter(folder: Path, attempt: int, *rows: int, partition: int = 0, batch: int = 3) -> Letters:
    made = Letters(str(folder), "query:name", batch, partition, attempt)
    for row in rows:
        made.add(row, "/t/a", b"\x00" if row == 1 else "é", {"x": "1"}, "denied", "no rule allows it")
    made.close()
    return made


def seen(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in folder.glob("*.jsonl")}


def hidden(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("_staged/*"))


def test_a_letter_tells_its_row(tmp_path: Path) -> None:
    assert letter(tmp_path, 7, 1, 2).rows == 2
    assert seen(tmp_path) == {}
    publish(str(tmp_path), "query:name", 3, [(0, 7)])
    (lines,) = seen(tmp_path).values()
    assert [line.pop("time") > 1_600_000_000_000 for line in lines] == [True, True]
    same = {"transaction": "query:name", "batch": 3, "partition": 0, "subject": "/t/a", "fields": {"x": "1"}}
    same |= {"code": "denied", "reason": "no rule allows it"}
    assert lines == [same | {"row": 1, "content": {"base64": "AA=="}}, same | {"row": 2, "content": "é"}]


def test_only_those_of_attempts_that_count_are_seen_and_again_changes_nothing(tmp_path: Path) -> None:
    letter(tmp_path, 7, 2)
    letter(tmp_path, 8, 5)
    letter(tmp_path, 9, 6, partition=1)
    letter(tmp_path, 10, 7, batch=4)
    for _ in range(2):
        publish(str(tmp_path), "query:name", 3, [(0, 8), (1, 9), (2, 99)])
        rows = {name: [line["row"] for line in lines] for name, lines in seen(tmp_path).items()}
        assert rows == {"query.name-3-0.jsonl": [5], "query.name-3-1.jsonl": [6]}
        assert hidden(tmp_path) == ["query.name-4-0-10.jsonl"]  # of another batch
        letter(tmp_path, 11, 2)  # the batch runs again, and its commit is answered as repeated


def test_those_of_another_transaction_stay(tmp_path: Path) -> None:
    """Of `a-3` the names begin as those of batch 3 of `a`."""
    made = Letters(str(tmp_path), "a-3", 5, 0, 8)
    made.add(1, "/t/a", "x", None, "denied", "no rule allows it")
    made.close()
    publish(str(tmp_path), "a", 3, [])
    assert hidden(tmp_path) == ["a-3-5-0-8.jsonl"]


def test_an_attempt_that_failed_leaves_nothing(tmp_path: Path) -> None:
    letter(tmp_path, 7, 2)
    for _ in range(2):
        drop(str(tmp_path), "query:name", 3, 0, 7)
    assert hidden(tmp_path) == []
    letter(tmp_path, 7)
    assert hidden(tmp_path) == []


def test_rows_refused_late_are_told_with_their_number(tmp_path: Path) -> None:
    done = Committed(10, False, [(0, 4, "/t/a", "too_large", "full")], 3, 0, [(0, 7, 10)])
    for _ in range(2):
        refused_late(str(tmp_path / "new"), "job", 0, done)
    same = {"transaction": "job", "batch": 0, "rows": 3, "partition": 0, "subject": "/t/a", "code": "too_large"}
    assert seen(tmp_path / "new") == {"job-0-late.jsonl": [same | {"reason": "full"}]}
