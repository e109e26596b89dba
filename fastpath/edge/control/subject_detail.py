"""The control verbs ``subject`` and ``history``: where a subject stands, and what is cached of it (protocol.md 8.8)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...core.cache.history import MESSAGE_OVERHEAD_BYTES
from ...core.delivery.audience import Group, SubjectFeed, Topic
from ...core.matching.subject_options import SubjectOptions
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import Message
from ...core.protocol.options import OPTIONS
from ...core.protocol.subject import check_subject
from ..runtime.component import Answer, ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Work, away_of, chosen, text
from .contents import AnswerRoom, shown

LIMIT_DEFAULT = 20
LIMIT_MAX = 100
"""Messages in one answer."""

ANSWER_BYTES_MAX = 256 << 10
"""Bytes that the messages of an answer take together; what is beyond follows with the next page."""

RATE_MS = 60_000
"""A subject's rate is that of its cached messages within so long."""

RATE_MESSAGES_MAX = 1000
"""Number of those messages that are looked at."""

SLICE_GROUPS = 50
"""Groups of clients looked at between two looks at the clock."""

SLICE_MESSAGES = 1000
"""The same of cached messages."""

UNUSED = "nobody publishes or subscribes to this subject"
BUSY = "the first worker has too much to do"

_COUNTS = ("subscribers", "patterns", "conflated", "behind")


class SubjectDetail:
    """Answers the verbs: what is kept is the first worker's to tell, who subscribes is every worker's."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.offers = Offers(
            verbs={"subject": self._ask, "history": self._history},
            questions={"subject": lambda query, done: runtime.scatter.run(self._count(query["subject"]), done)},
        )

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Tell where a ``subject`` stands; answers later."""
        subject, number = _subject(arguments), peer.request

        def gathered(answers: dict[int, Answer], away: list[int]) -> None:
            found = [answer for answer in answers.values() if "failed" not in answer]
            counts = {name: sum(answer[name] for answer in found) for name in _COUNTS}
            if 0 not in answers or "failed" in answers[0]:
                peer.refuse(number, *answers.get(0, {"failed": ["timeout", BUSY]})["failed"])
            elif not any(answer["known"] for answer in found):
                peer.refuse(number, "unknown", UNUSED)
            else:
                peer.reply(
                    number, {"subject": subject} | answers[0]["stands"] | counts | {"away": away_of(answers, away)}
                )

        self._runtime.scatter.ask("subject", {"subject": subject}, gathered)

    def _stand(self, subject: str, topic: Topic | None) -> Work:
        """Return where the subject stands, what is cached of it and how much comes."""
        snapshot = self._runtime.broker.snapshot(topic) if topic is not None else None
        ring = (topic.ring if topic is not None else None) or ()
        newest = ring[-1] if ring else snapshot.newest if snapshot is not None else None
        cached_bytes = MESSAGE_OVERHEAD_BYTES * len(ring)
        for at, message in enumerate(list(ring)):
            cached_bytes += message.size
            if at % SLICE_MESSAGES == 0:
                yield
        options = self._runtime.broker.interest.options
        in_force = (topic.options if topic is not None else options.find(subject)) or options.defaults
        per_second, bytes_per_second = _rate(ring, in_force.cache_messages, now())
        answer: Answer = {
            "epoch": topic.epoch if topic is not None else 0,
            "seq": topic.seq if topic is not None else 0,
            "snapshot": None,
            "cached": len(ring),
            "cached_bytes": cached_bytes,
            "oldest_seq": ring[0].seq if ring else 0,
            "newest_time": newest.time if newest is not None else None,
            "messages_per_s": per_second,
            "bytes_per_s": bytes_per_second,
            "options": {name: getattr(in_force, name) for name in OPTIONS} | {"patterns": _patterns(options, subject)},
            "stale": self._runtime.stale,
        }
        if topic is not None and snapshot is not None:
            whole = shown(snapshot.as_message(topic.subject, topic.epoch, topic.seq))
            answer["snapshot"] = whole | {"as_of": snapshot.newest.as_of}
        return answer

    def _count(self, subject: str) -> Work:
        """Count who subscribes to the subject in this process: in all, by a pattern, conflated, and behind because they
        lag."""
        topic = self._runtime.broker.interest.topics.get(subject)
        counts = dict.fromkeys(_COUNTS, 0)
        feeds: list[SubjectFeed] = []
        if topic is not None:
            feeds = [feed for feed in (topic.feed, *(topic.conflated or {}).values()) if feed is not None]
            counts["behind"] = len(topic.live.lagging) if topic.live is not None else 0
            counts["subscribers"] = counts["behind"]
        for feed in feeds:
            joining = len(feed.joining) + feed.recovering
            counts["subscribers"] += joining
            counts["conflated"] += joining if feed.interval else 0
            for at, group in enumerate(list(feed.groups)):
                counts["subscribers"] += len(group)
                counts["conflated"] += len(group) if feed.interval else 0
                counts["patterns"] += _by_pattern(group, feed.topic)
                if at % SLICE_GROUPS == 0:
                    yield
        answer = counts | {"known": topic is not None}
        return answer if self._runtime.workers.number else answer | {"stands": (yield from self._stand(subject, topic))}

    def _history(self, peer: ControlPeer, arguments: dict[str, Any]) -> Answer:
        """Return the messages of a ``subject`` numbered below ``before``, the newest first, at most ``limit``."""
        del peer
        subject = _subject(arguments)
        before = chosen(arguments.get("before"), 0, 1 << 53, "before", 0)
        limit = chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_DEFAULT)
        topic = self._runtime.broker.interest.topics.get(subject)
        if topic is None:
            raise InvalidMessage("unknown", UNUSED)
        ring = topic.ring or ()
        # Numbers in a ring rise by one (core/cache/history.py).
        end = len(ring) if not before or not ring else min(max(before - ring[0].seq, 0), len(ring))
        messages: list[Answer] = []
        room = AnswerRoom(ANSWER_BYTES_MAX)
        for message in islice(reversed(ring), len(ring) - end, None):
            if len(messages) == limit or not room.takes(whole := _whole(message)):
                break
            messages.append(whole)
        return {"messages": messages, "more": len(messages) < end}


def _subject(arguments: dict[str, Any]) -> str:
    subject = text(arguments, "subject")
    check_subject(subject)
    return subject


def _whole(message: Message) -> Answer:
    more = {"retained": message.retained, "qos": message.qos, "bytes": message.size}
    whose = {"reply_to": message.reply_to or "", "closure": message.closure or "", "as_of": message.as_of}
    return shown(message) | more | whose


def _patterns(options: SubjectOptions, subject: str) -> dict[str, str]:
    """Return the pattern that says it, by the name of each option that one does."""
    return {name: row.pattern for name, row in options.winners(subject).items()}


def _by_pattern(group: Group, topic: Topic) -> int:
    """Return how many of the group follow the subject because of a pattern."""
    if group.cohort is not None:
        return len(group) if topic in group.owners else 0
    members = (*group.ready, *group.singles)
    return sum(topic in client.wilds.owners for client in members if client.wilds)


def _rate(ring: Any, cached_max: int, moment: int) -> tuple[float, float]:
    """Return messages and bytes per second over the last minute, or over as much of it as the cache holds."""
    count = size = 0
    oldest = moment
    for message in islice(reversed(ring), RATE_MESSAGES_MAX):
        if message.time <= moment - RATE_MS:
            break
        count += 1
        size += message.size
        oldest = message.time
    whole = count < min(len(ring), RATE_MESSAGES_MAX) or len(ring) < min(cached_max, RATE_MESSAGES_MAX)
    span = RATE_MS if whole else max(moment - oldest, 1)
    return round(count * 1000 / span, 3), round(size * 1000 / span, 1)
