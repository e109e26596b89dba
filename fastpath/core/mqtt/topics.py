"""Topics as subjects and topic filters as patterns, without loss (docs/reference/mqtt.md).

A topic that is a valid subject is that subject. Any other topic has a subject below ``/__mqtt__``, level by level, of
which wildcards of clients of the protocol know nothing: it lives among MQTT clients. A level that no segment can be is
written with ``%``:

Level           Segment
empty           %
*, **           %2A, %2A%2A
with % in it    %25 for each
any other       itself
"""

from __future__ import annotations

from functools import lru_cache

from ..protocol.errors import InvalidSubject
from ..protocol.subject import MQTT, check_subject, is_reserved, is_system
from .reasons import MqttError, Reason

SHARE = "$share"
"""The first level of a filter whose messages a group shares (5: 4.8.2)."""

_PREFIX = f"/{MQTT}/"
_ESCAPES = {"": "%", "*": "%2A", "**": "%2A%2A"}
_LEVELS = {segment: level for level, segment in _ESCAPES.items()}


@lru_cache(maxsize=4096)
def subject_of(topic: str) -> str:
    """Return the subject of a topic name; raise MqttError for one that has none: too long, or not open to clients."""
    if topic.startswith("$"):
        raise MqttError(Reason.TOPIC_INVALID, "topics that begin with $ are the server's own, and this one has none")
    if topic.startswith(_PREFIX):
        raise MqttError(Reason.TOPIC_INVALID, f"topics below {_PREFIX} stand for others")
    if topic.startswith("/"):
        try:
            check_subject(topic)
        except InvalidSubject as error:
            if error.reason == "too long":
                raise MqttError(Reason.TOPIC_INVALID, "the topic is too long") from None
            if is_system(topic):
                raise MqttError(Reason.TOPIC_INVALID, "the server's own topics are its subjects alone") from None
        else:
            return topic
    subject = _PREFIX + "/".join(map(_segment, topic.split("/")))
    try:
        check_subject(subject)
    except InvalidSubject as error:
        raise MqttError(Reason.TOPIC_INVALID, f"the topic cannot be used: {error.reason}") from None
    return subject


@lru_cache(maxsize=4096)
def topic_of(subject: str) -> str:
    """Return the topic of a subject."""
    if not subject.startswith(_PREFIX):
        return subject
    return "/".join(map(_level, subject[len(_PREFIX) :].split("/")))


@lru_cache(maxsize=4096)
def name_of(subject: str) -> str:
    """Return the topic of a subject as a PUBLISH may name it (4.7.1, 4.7.3); empty where no topic has this subject: not
    all that can be published below ``/__mqtt__`` is the way of a topic there, and with wildcards in it nothing is."""
    topic = topic_of(subject)
    if not {"+", "#", "\0"}.isdisjoint(topic):
        return ""
    try:
        return topic if subject_of(topic) == subject else ""
    except MqttError:
        return ""


def check_filter(text: str) -> list[str]:
    """Return the levels of a topic filter (4.7.1); raise MqttError."""
    levels = text.split("/")
    if not text or "#" in levels[:-1] or any(len(one) > 1 and ("+" in one or "#" in one) for one in levels):
        raise MqttError(Reason.FILTER_INVALID, "that is no topic filter")
    return levels


def share_of(levels: list[str]) -> list[str]:
    """Return the levels of the filter that a group shares, ``$share/NAME/FILTER``; none of any other. Raises
    MqttError."""
    if levels[0] != SHARE:
        return []
    if len(levels) < 3 or not levels[1] or levels[1] in ("+", "#") or levels[2:] == [""]:
        raise MqttError(Reason.FILTER_INVALID, "a shared subscription is $share/NAME/FILTER")
    return levels[2:]


def is_wild(levels: list[str]) -> bool:
    """Return whether a filter has a wildcard."""
    return levels[-1] == "#" or "+" in levels


def patterns_of(levels: list[str]) -> list[str]:
    """Return the subjects and patterns that together cover what a filter matches; raise MqttError for one that has
    none.

    A filter can match subjects, and topics that live among MQTT clients; ``#`` also matches the level before it. What
    begins with ``$`` covers nothing: there is no such topic.
    """
    if levels[0].startswith("$"):
        return []
    if not is_wild(levels):
        return [subject_of("/".join(levels))]
    found = [_PREFIX + "/".join(map(_wild, levels))]
    if levels[-1] == "#" and len(levels) > 1:
        found.append(_PREFIX + "/".join(map(_wild, levels[:-1])))
    if levels[0] in ("", "+", "#"):
        rest = ["#"] if levels == ["#"] else levels[1:]
        if rest and "" not in rest and not {"*", "**"}.intersection(rest) and rest[0] != MQTT:
            if len(rest) > 1 or rest == ["#"]:
                found.append("/" + "/".join(map(_star, rest)))
            if rest[-1] == "#" and len(rest) > 2:
                found.append("/" + "/".join(map(_star, rest[:-1])))
    return found


def matches(levels: list[str], topic: list[str]) -> bool:
    """Return whether the filter matches the topic, both as their levels (4.7)."""
    if levels[0] in ("+", "#") and topic[0].startswith("$"):
        return False
    if _is_named(topic) and (levels[0] == "#" or levels[1:2] in (["+"], ["#"])):
        return False
    if levels[-1] == "#":
        count = len(levels) - 1
        if len(topic) < count:
            return False
    elif len(levels) != len(topic):
        return False
    else:
        count = len(levels)
    return all(levels[at] in ("+", topic[at]) for at in range(count))


def _is_named(topic: list[str]) -> bool:
    """Return whether the topic is a subject whose first segment no wildcard stands for."""
    return (
        len(topic) > 2
        and topic[0] == ""
        and is_reserved(topic[1])
        and "" not in topic[1:]
        and {"*", "**"}.isdisjoint(topic)
    )


def _segment(level: str) -> str:
    return _ESCAPES.get(level) or level.replace("%", "%25")


def _level(segment: str) -> str:
    level = _LEVELS.get(segment)
    return segment.replace("%25", "%") if level is None else level


def _wild(level: str) -> str:
    return "*" if level == "+" else "**" if level == "#" else _segment(level)


def _star(level: str) -> str:
    return "*" if level == "+" else "**" if level == "#" else level
