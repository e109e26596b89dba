"""The options of a subject: for each the most specific pattern that sets it, against a plain model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.matching.subject_options import SubjectOptions
from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol.options import OPTIONS, OptionRow, TopicOptions

DEFAULTS = TopicOptions(1000, 180_000)

TABLE = [
    OptionRow(1, "/**", cache_messages=10),
    OptionRow(2, "/stocks/**", cache_messages=20, cache_ms=2000),
    OptionRow(3, "/stocks/*/IBM", conflation_ms=300),
    OptionRow(4, "/stocks/nyse/*", cache_messages=40),
    OptionRow(5, "/stocks/nyse/IBM", cache_ms=0),
    OptionRow(6, "/user/ann/**", cache_messages=60),
    OptionRow(7, "/*/x", conflation_ms=100),
]


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        ("/other/y", (10, 180_000, 0)),
        ("/other/x", (10, 180_000, 100)),
        ("/stocks/x", (20, 2000, 100)),
        ("/stocks/nyse/SAP", (40, 2000, 0)),
        ("/stocks/nyse/IBM", (40, 0, 300)),
        ("/stocks/xetra/IBM", (20, 2000, 300)),
        ("/stocks/xetra/IBM/deep", (20, 2000, 0)),
        ("/user/ann/inbox", (60, 180_000, 0)),
        ("/user/bob/inbox", None),
        ("/__sys__/stats", None),
    ],
)
def test_table(subject: str, wanted: tuple[int, ...] | None) -> None:
    """A wildcard in the first place does not stand for what is reserved there."""
    found = SubjectOptions(DEFAULTS, TABLE).find(subject)
    assert (found[:3] if found is not None else None) == wanted


def test_the_example_of_the_page() -> None:
    """docs/operate/options.md."""
    rows = [
        OptionRow(1, "/stocks/**", cache_messages=50, conflation_ms=500, retained=False, publish_rate=9),
        OptionRow(2, "/stocks/*/IBM", cache_ms=600_000, conflation_ms=0, retained=True, publish_rate=0),
        OptionRow(3, "/stocks/us/*", cache_messages=0),
    ]
    options = SubjectOptions(DEFAULTS, rows)
    assert options.find("/stocks/us/IBM") == (0, 600_000, 0, True, "guaranteed", None, 0, "/stocks/*/IBM")
    assert options.find("/stocks/uk/SAP") == (50, 180_000, 500, False, "guaranteed", None, 9, "/stocks/**")


def test_who_has_said_it() -> None:
    won = SubjectOptions(DEFAULTS, TABLE).winners("/stocks/nyse/IBM")
    assert {name: row.id for name, row in won.items()} == {"cache_messages": 4, "cache_ms": 5, "conflation_ms": 3}


def test_without_rows_the_settings_count() -> None:
    assert SubjectOptions(DEFAULTS).find("/a/b") is None
    assert SubjectOptions(DEFAULTS, [OptionRow(1, "/a/*")]).find("/a/b") is None


def test_the_same_is_one_object() -> None:
    """Of a million subjects too."""
    options = SubjectOptions(DEFAULTS, TABLE)
    assert options.find("/stocks/nyse/A") is options.find("/stocks/nyse/B")


SEGMENTS = st.sampled_from(["a", "b", "user", "*"])
PATTERNS = st.tuples(st.lists(SEGMENTS, min_size=1, max_size=3), st.sampled_from(["a", "b", "*", "**"])).map(
    lambda parts: "/" + "/".join([*parts[0], parts[1]])
)
ROWS = st.builds(
    OptionRow,
    st.integers(1, 99),
    PATTERNS,
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.just(100),
    st.none() | st.booleans(),
    st.none() | st.sampled_from(["guaranteed", "standard"]),
    st.none() | st.booleans(),
    st.none() | st.integers(0, 9),
)


def outranks(one: str, other: str) -> bool:
    """Return whether a pattern is more specific than another that covers the same subject: the first segment in which
    they differ is a name, or it is * where the other has **."""
    for mine, theirs in zip(one[1:].split("/"), other[1:].split("/"), strict=False):
        if mine != theirs:
            return "*" not in mine or theirs == "**"
    raise AssertionError("two patterns of which one begins the other do not cover the same subject")


@given(
    st.lists(ROWS, max_size=12, unique_by=lambda row: row.pattern),
    st.lists(st.sampled_from(["a", "b", "user"]), min_size=2, max_size=4),
)
def test_against_the_definition(rows: list[OptionRow], segments: list[str]) -> None:
    """Each option by itself: of the patterns that set it and cover the subject, the one that outranks all others."""
    subject = "/" + "/".join(segments)
    wanted = {name: getattr(DEFAULTS, name) for name in OPTIONS} | {"rated_by": ""}
    said = False
    for name in OPTIONS:
        best: OptionRow | None = None
        for row in rows:
            sets = getattr(row, name) is not None and covers(row.pattern, subject)
            if sets and (best is None or outranks(row.pattern, best.pattern)):
                best = row
        if best is not None:
            wanted[name], said = getattr(best, name), True
            if name == "publish_rate":
                wanted["rated_by"] = best.pattern
    found = SubjectOptions(DEFAULTS, rows).find(subject)
    assert (found and found._asdict()) == (wanted if said else None)


def test_the_longest_time_of_all() -> None:
    assert SubjectOptions(DEFAULTS, TABLE).cache_ms_most == 180_000
    assert SubjectOptions(DEFAULTS, [OptionRow(1, "/a/*", cache_ms=180_001)]).cache_ms_most == 180_001
