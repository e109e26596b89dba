"""Topics as subjects and filters as patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.mqtt.reasons import MqttError, Reason
from fastpath.core.mqtt.topics import check_filter, matches, name_of, patterns_of, subject_of, topic_of
from fastpath.core.protocol.subject import check_pattern, check_subject, is_wildcard


def refused(topic: str) -> bool:
    """Whether it has no subject: it is below the server's own, and none itself."""
    try:
        subject_of(topic)
    except MqttError:
        return True
    return False


LEVELS = st.sampled_from(["", "a", "b", "stocks", "*", "**", "%", "%2A", "%25", "é", "__sys__", "user"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=5).map("/".join).filter(lambda topic: bool(topic) and not refused(topic))
FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(LEVELS | st.just("+"), min_size=1, max_size=4),
    st.sampled_from([[], [], ["#"]]),
).filter(lambda text: bool(text) and ("+" in text or "#" in text or not refused(text))) | st.just("#")


@pytest.mark.parametrize(
    ("topic", "subject"),
    [
        ("/stocks/us/IBM", "/stocks/us/IBM"),
        ("stocks/us/IBM", "/__mqtt__/stocks/us/IBM"),
        ("temperature", "/__mqtt__/temperature"),
        ("/temperature", "/__mqtt__/%/temperature"),
        ("/a//b", "/__mqtt__/%/a/%/b"),
        ("/a/b/", "/__mqtt__/%/a/b/%"),
        ("/a/*", "/__mqtt__/%/a/%2A"),
        ("100%/a", "/__mqtt__/100%25/a"),
        ("/", "/__mqtt__/%/%"),
    ],
)
def test_a_topic_that_is_a_subject_is_that_subject_and_any_other_has_its_own(topic: str, subject: str) -> None:
    assert subject_of(topic) == subject
    assert topic_of(subject) == topic


@given(TOPICS)
def test_the_way_back_gives_the_topic(topic: str) -> None:
    subject = subject_of(topic)

    check_subject(subject)
    assert topic_of(subject) == topic
    assert name_of(subject) == topic


@pytest.mark.parametrize(
    "subject",
    [
        "/__mqtt__/$x/y",
        "/__mqtt__/%/a/b",
        "/__mqtt__/%/__mqtt__/a",
        "/__mqtt__/50%",
        "/__mqtt__/a+",
        "/a/+",
        "/a/b#",
    ],
)
def test_a_subject_that_is_no_topics_has_no_name(subject: str) -> None:
    check_subject(subject)
    assert name_of(subject) == ""


@pytest.mark.parametrize("topic", ["$SYS/broker", "$x", "/__mqtt__/a/b", "/a" * 400, "a/" * 40])
def test_topics_that_cannot_be_used(topic: str) -> None:
    with pytest.raises(MqttError) as raised:
        subject_of(topic)

    assert raised.value.code == Reason.TOPIC_INVALID


@given(FILTERS, TOPICS)
def test_the_patterns_cover_exactly_what_the_filter_matches(text: str, topic: str) -> None:
    levels, subject = check_filter(text), subject_of(topic)
    patterns = patterns_of(levels)
    for pattern in patterns:
        (check_pattern if is_wildcard(pattern) else check_subject)(pattern)

    covered = any(covers(pattern, subject) if is_wildcard(pattern) else pattern == subject for pattern in patterns)
    assert covered == matches(levels, topic.split("/"))


@pytest.mark.parametrize(
    ("text", "topic", "fits"),
    [
        ("sport/tennis/#", "sport/tennis", True),
        ("sport/tennis/#", "sport/tennis/player1/ranking", True),
        ("#", "/a/b", True),
        ("+", "/finance", False),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("#", "$SYS/x", False),
        ("+/monitor", "$SYS/monitor", False),
        ("$SYS/#", "$SYS/monitor", True),
        ("#", "/__sys__/presence", False),
        ("/__sys__/presence", "/__sys__/presence", True),
        ("/+/presence", "/__sys__/presence", False),
        ("#", "/user/ann/x", False),
        ("/+/ann/#", "/user/ann/x", False),
        ("+/user/#", "/user/ann/x", True),
        ("#", "user/ann/x", True),
        ("#", "/user//x", True),
    ],
)
def test_the_examples_of_the_standard(text: str, topic: str, fits: bool) -> None:
    assert matches(check_filter(text), topic.split("/")) == fits


@pytest.mark.parametrize("text", ["", "a#", "#/a", "a/#/b", "a+", "+a/b", "a/b+"])
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(MqttError) as raised:
        check_filter(text)

    assert raised.value.code == Reason.FILTER_INVALID
