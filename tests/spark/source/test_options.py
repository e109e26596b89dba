"""The options of a read: what they are when left out, and mistakes that say what is wrong."""

from __future__ import annotations

import re

import pytest

from spark.options import InvalidOption
from spark.source.options import SourceOptions
from spark.source.positions import EARLIEST

GIVEN = {"url": "127.0.0.1:1", "subjects": "/a/b"}


def test_defaults() -> None:
    stream = SourceOptions.parse(GIVEN, streaming=True)
    assert (stream.start, stream.max_rows, stream.fail_on_data_loss, stream.wait_ms) == ("latest", None, True, 200)
    assert SourceOptions.parse(GIVEN, streaming=False).start == "earliest"
    assert stream.tls() is None


def test_names_in_any_case_and_patterns_once() -> None:
    given = GIVEN | {"SUBJECTS": " /a/*, /b/** ,/a/*", "Fail_On_Data_Loss": "False", "max_rows": "10", "path": "x"}
    del given["subjects"]
    options = SourceOptions.parse(given, streaming=True)
    assert options.subjects == ("/a/*", "/b/**")
    assert (options.fail_on_data_loss, options.max_rows) == (False, 10)


@pytest.mark.parametrize(
    ("text", "start", "time"),
    [
        ("Latest", "latest", None),
        ("1769851800000", "time", 1_769_851_800_000),
        ("2026-01-31T09:30:00Z", "time", 1_769_851_800_000),
        ("2026-01-31 10:30:00.5+01:00", "time", 1_769_851_800_500),
        ("2026-01-31T09:30:00", "time", 1_769_851_800_000),
        ('{"/a/b": [7, 3], "/a/c": "earliest"}', {"/a/b": (7, 3), "/a/c": EARLIEST}, None),
    ],
)
def test_where_to_start(text: str, start: object, time: int | None) -> None:
    options = SourceOptions.parse(GIVEN | {"start": text}, streaming=True)
    assert (options.start, options.time) == (start, time)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subjects": "a"}, "option 'subjects' 'a': no leading slash"),
        ({"subjects": "/a/b,/a/**/c"}, "option 'subjects' '/a/**/c': ** only as the last segment"),
        ({"url": "h"}, "option 'url': 'h' is no address of a publisher port"),
        ({"subjects": " , "}, "option 'subjects' names no subject"),
        ({"subjects": ""}, "needs the option subjects"),
        ({"start": "yesterday"}, "option 'start' is earliest, latest, a time such as"),
        ({"start": '{"/a/b": [1]}'}, "option 'start' is earliest"),
        ({"start": '{"/a/b": [1, -1]}'}, "option 'start' is earliest"),
        ({"start": "{"}, "option 'start' is earliest"),
        ({"max_rows": "0"}, "option 'max_rows' must be a whole number from 1"),
        ({"wait_ms": "5001"}, "option 'wait_ms' must be a whole number from 0 to 5000"),
        ({"partitions": "x"}, "option 'partitions' must be a whole number"),
        ({"fail_on_data_loss": "maybe"}, "option 'fail_on_data_loss' must be one of true, false, not 'maybe'"),
        ({"colour": "red"}, "unknown option 'colour' of this format; there are: url, token"),
    ],
)
def test_mistakes(options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(text)):
        SourceOptions.parse(GIVEN | options, streaming=True)


def test_a_batch_has_no_limit() -> None:
    with pytest.raises(InvalidOption, match="option 'max_rows' is for streaming queries"):
        SourceOptions.parse(GIVEN | {"max_rows": "5"}, streaming=False)
