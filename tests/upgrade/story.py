"""What publishers and subscribers of the earlier revision did, told so that it can be told again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from tests.support.edge.transacting import Transacting, run
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

Told = dict[str, list[list[Any]]]
"""By subject, its messages: sequence number, time in ms since 1970, content, fields, meta."""

SETTINGS = {
    "cache_messages": 10_000,
    "cache_seconds": 10**9,
    "staged_seconds": 10**9,
}
"""Of both revisions: what is cached or staged does not end with the age of the fixtures."""

SHORT = {"cache_seconds": 1}
"""Instead, where there is to be a base: segments are kept as long as what is cached."""

SUBJECTS = ["/upgrade/prices", "/upgrade/bytes", "/upgrade/plain", "/upgrade/chat", "/upgrade/committed"]
NEXT = "/upgrade/next"
"""Where it goes on after the takeover; no test reads it whole."""

BEGUN = "/upgrade/begun"
BEGUN_ROWS = 300
"""In two chunks, each of which is a slice of the release."""

BASE = "base"
ENDS = {
    "stopped": "",
    BASE: "",
    "begin": "kill:begin:2",
    "release": "kill:release:2",
    "finish": "kill:finish:2",
}
"""How the earlier process ended, by the fault that did it: at rest, or in the middle of the second commit. With a base
the journal has been written anew before."""

BATCHES: list[list[list[Any]]] = [
    [
        ["/upgrade/prices", "1", {"bid": "10", "ask": "11"}],
        ["/upgrade/prices", "2", {"bid": "12"}, {"closure": "of 2", "as_of": {"batch": 3, "job": "bars"}}],
        ["/upgrade/prices", "not kept", {"bid": "0"}, {"retained": False}],
        ["/upgrade/bytes", b"\x00\xff", {"raw": b"\x80"}, {"reply_to": "/upgrade/answers"}],
        ["/upgrade/prices", "perhaps", None, {"qos": "standard"}],
        ["no subject", "refused"],
        [NEXT, "first"],
    ],
    [
        ["/upgrade/plain", "ünïcode ✓"],
        ["/upgrade/prices", "3", {"ask": "13", "size": "7"}],
        ["/upgrade/plain", ""],
    ],
]
"""What the publisher ``feed`` sends, numbered from 1 on: one batch before the process is started again, one after."""

FILLED = "/upgrade/filled"
FILLING = ["x" * 1_000_000, None, {"retained": False}]
"""Messages of which nothing stays but their number."""

STAGED = [run("/upgrade/committed", "a", b"b", "c", n=["1", None, "3"]), run("bad", "refused")]
WAITING = [[run("/upgrade/waiting", "first", "second", meta={"closure": "w"})], [run("/upgrade/waiting", "third")]]


def plain(value: Any) -> Any:
    """The same as JSON says it: bytes become base64, tuples lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Reader(WireClient):
    """A subscriber that notes what comes, with its time."""

    def __init__(self, sidecar: Sidecar) -> None:
        super().__init__(sidecar, "msgpack")
        self.base = 0
        self.results: dict[str, dict[str, Any]] = {}
        self.told: Told = {}

    def subscribe(self, *subjects: str, **keys: Any) -> list[dict[str, Any]]:
        """Subscribe; the results, which are noted as well."""
        results = super().subscribe(*subjects, **keys)
        self.results |= {result["subject"]: result for result in results}
        return results

    def next(self) -> Any:
        """As WireClient; what it is, is noted."""
        value = super().next()
        if isinstance(value, dict):
            self.base = value.get("base", self.base)
        else:
            sid, seq, time, content, *rest = value
            fields, meta = [*rest, None, None][:2]
            row = [seq, self.base + time, content, fields, meta or {}]
            self.told.setdefault(self.subjects[sid], []).append(plain(row))
        return value

    def all(self) -> Told:
        """All that has been sent to this client."""
        number = self.say("ping")
        self.answer("pong", number)
        return self.told

    def hear(self, subject: str, count: int) -> list[list[Any]]:
        """Its messages, once they are so many: with Redis they come after the acknowledgement."""
        until(lambda: len(self.all().get(subject, ())) >= count)
        return self.told[subject]

    def positions(self) -> dict[str, list[int]]:
        """Where each subscription began."""
        return {subject: [one["epoch"], one["seq"]] for subject, one in self.results.items()}


def feed(sidecar: Sidecar, reader: Reader, batch: int, first: int) -> list[Any]:
    """The feed sends one of its batches; the acknowledgement's epoch and results, once the reader has had it all."""
    with WirePublisher(sidecar, publisher="feed") as publisher:
        publisher.packet("batch", 1, BATCHES[batch], first)
        kind, number, epoch, results = publisher.next()
        assert (kind, number) == ("ack", 1)
    for subject, rows in groupby(sorted(row[0] for row in BATCHES[batch] if row[0] in SUBJECTS)):
        reader.hear(subject, len(list(rows)))
    return [epoch, results]


def chat(client: WireClient, content: str, number: int) -> dict[str, Any]:
    """A numbered publication of a client that said its publisher's name; the answer."""
    keys = {"subject": "/upgrade/chat", "content": content, "closure": content, "publication": number}
    return {key: value for key, value in client.ask("publish", "published", **keys).items() if key != "id"}


def commit_begun(publisher: WirePublisher) -> list[Any]:
    """Commit the large batch."""
    return Transacting(publisher, "begun").commit(7, (0, 31, BEGUN_ROWS))


def tell(sidecar: Sidecar, end: str, data: Path | None = None) -> dict[str, Any]:
    """Everything happens; what was acknowledged and delivered. ``data`` is the journal's folder, which is filled."""
    facts: dict[str, Any] = {"end": end}
    told: list[Told] = []
    with Reader(sidecar) as reader, WireClient(sidecar, "msgpack") as talker:
        reader.subscribe(*SUBJECTS, BEGUN)
        facts["before"] = reader.positions()
        facts["feed"] = [feed(sidecar, reader, 0, 1)]
        talker.ask("connect", "connected", publisher="talker")
        facts["chat"] = [chat(talker, "hello", 1)]
        reader.hear("/upgrade/chat", 1)
        told.append(reader.all())
    sidecar.kill()
    sidecar.start()
    with Reader(sidecar) as reader, WirePublisher(sidecar) as spark, WireClient(sidecar, "msgpack") as talker:
        reader.subscribe(*SUBJECTS, BEGUN)
        reader.all()
        reader.told = {}  # the snapshots
        facts["between"] = reader.positions()
        facts["feed"].append(feed(sidecar, reader, 1, len(BATCHES[0]) + 1))
        talker.ask("connect", "connected", publisher="talker")
        facts["chat"].append(chat(talker, "again", 2))
        committed, waiting, begun = (Transacting(spark, name) for name in ("committed", "waiting", "begun"))
        facts["staged"] = committed.stage(0, 0, 5, STAGED)
        facts["committed"] = committed.commit(0, (0, 5, 3))
        for partition, runs in enumerate(WAITING):
            waiting.stage(2, partition, 9, runs)
        half = BEGUN_ROWS // 2
        for chunk in range(2):
            texts = [str(number) for number in range(half * chunk, half * (chunk + 1))]
            assert begun.stage(7, 0, 31, [run(BEGUN, *texts)], chunk=chunk) == ["staged", half, []]
        reader.hear("/upgrade/chat", 1)
        reader.hear("/upgrade/committed", 3)
        told.append(reader.all())
        with Reader(sidecar) as newcomer:
            newcomer.subscribe(*SUBJECTS)
            facts["snapshots"] = newcomer.all()
        if data is not None:
            facts |= fill(sidecar, data)
        if not ENDS[end]:
            sidecar.stop()
        else:
            with suppress(Ended, ConnectionError):
                commit_begun(spark)
                raise AssertionError("the fault did not happen")
            assert sidecar.process is not None
            sidecar.process.wait(PATIENCE_SECONDS)
    facts["told"] = merged(told)
    return dict(plain(facts))


def fill(sidecar: Sidecar, data: Path) -> dict[str, Any]:
    """Publish until the journal has a base and, minutes later, the segments before it are gone; the last answer."""
    with WirePublisher(sidecar) as publisher:
        results: list[Any] = []
        while not list(data.glob("*.base")):
            results = publisher.publish(*[[FILLED, *FILLING]] * 3)
    until(lambda: len(list(data.glob("*.log"))) == 1, seconds=300)
    return {"filled": results[-1]}


def merged(parts: Iterable[Told]) -> Told:
    """What several readers were told, one after the other."""
    found: Told = {}
    for part in parts:
        for subject, rows in part.items():
            found.setdefault(subject, []).extend(rows)
    return found
