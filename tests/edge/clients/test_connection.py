"""Delivery through real sockets: the examples of the reference, word for word, in both wire forms."""

from __future__ import annotations

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

INVALID = {
    "/Stocks//IBM/BID": "empty segment",
    "Stocks/IBM/BID": "no leading slash",
    "/Stocks/IBM/BID/": "last segment empty",
    "/": "a single empty segment",
    "/Stocks": "only one segment",
    "/Stocks/a\x00b": "reserved segment",
    "": "no leading slash",
    "/s/" + "x" * 510: "too long",
    "/s/" + "é" * 255: "too long",
    "/s" * 33: "too many segments",
}
"""Subjects that are none, each with its reason (features.md A1, protocol.md 2.1)."""

PATTERNS = {"/Stocks/*": "reserved segment", "/Stocks/**": "reserved segment"}
"""What can be subscribed to, and not published to."""


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_invalid_subjects_each_with_its_reason(shared: Sidecar, form: str) -> None:
    with WireClient(shared, form) as client, WirePublisher(shared) as publisher, Control(shared.control) as control:
        results = client.subscribe(*INVALID, "/good/one")
        assert [(one["subject"], one.get("error"), one.get("reason")) for one in results[:-1]] == [
            (subject, "invalid", reason) for subject, reason in INVALID.items()
        ]
        assert "sid" in results[-1]
        invalid = INVALID | PATTERNS
        rows = [[subject, "x"] for subject in invalid]
        for answers in (publisher.publish(*rows), control.publish(rows)["results"]):
            assert [(code, reason.rpartition(": ")[2]) for code, reason in answers] == [
                ("invalid", reason) for reason in invalid.values()
            ]
        for subject, reason in invalid.items():
            answer = client.ask("publish", "published", subject=subject, content="x", closure="c")
            assert (answer["status"], answer["reason"].rpartition(": ")[2]) == ("invalid", reason)


def test_case_matters_and_any_other_character_may_be_in_a_subject(shared: Sidecar) -> None:
    subjects = ["/Case/One", "/case/one", "/case/é ü", "/case/{x}", "/case/a*", "/case/\n", "/s/" + "x" * 509]
    with WireClient(shared) as client:
        assert all("sid" in result for result in client.subscribe(*subjects))
        for number, subject in enumerate(subjects):
            client.say("publish", subject=subject, content=str(number))
        got = [client.message() for _ in subjects]
        assert [(client.subjects[one[0]], one[3]) for one in got] == [(s, str(n)) for n, s in enumerate(subjects)]


SNAPSHOTS = [
    ("193", {"volume": "6.62M"}, "193", {"volume": "6.62M"}),
    ("192", {}, "192", {"volume": "6.62M"}),
    ("195", {"ask": "190"}, "195", {"volume": "6.62M", "ask": "190"}),
    ("193", {"bid": "194", "ask": "191"}, "193", {"volume": "6.62M", "ask": "191", "bid": "194"}),
]
"""What is published to /Stocks/NYSE/IBM at 10:12, 10:13, 10:15 and 10:20, and the snapshot after (features.md A3)."""


def test_the_snapshot_table() -> None:
    with Sidecar() as sidecar, WirePublisher(sidecar) as publisher:
        with WireClient(sidecar) as early:
            assert "messages" not in early.subscribe("/Stocks/NYSE/IBM")[0]
            assert early.quiet(), "there is no snapshot yet"
        for seq, (content, fields, snapshot, all_fields) in enumerate(SNAPSHOTS, 1):
            assert publisher.publish(["/Stocks/NYSE/IBM", content, fields]) == [seq]
            with WireClient(sidecar) as client:
                [result] = client.subscribe("/Stocks/NYSE/IBM")
                assert (result["seq"], result["messages"]) == (seq, 1)
                assert client.message()[1] == seq
                assert client.quiet()
                client.ask("unsubscribe", "unsubscribed", subjects=["/Stocks/NYSE/IBM"])
                client.subscribe("/Stocks/NYSE/IBM")
                assert client.message()[3:] == [snapshot, all_fields, {"kind": "snapshot"}]
        publisher.publish(["/Stocks/NYSE/IBM", "0", {"bid": "0"}, {"retained": False}])
        with WireClient(sidecar) as late:
            late.subscribe("/Stocks/NYSE/IBM")
            assert late.message()[3:5] == list(SNAPSHOTS[-1][2:]), "what is not retained never changes it"
            publisher.publish(["/Stocks/NYSE/IBM", "196"])
            assert late.message()[3:] == ["196"], "then live"


def test_snapshots_can_be_switched_off() -> None:
    with Sidecar(snapshots=0) as sidecar, WirePublisher(sidecar) as publisher, WireClient(sidecar) as client:
        publisher.publish(["/no/snapshot", "x"])
        assert "messages" not in client.subscribe("/no/snapshot")[0]
        assert client.quiet()
        assert "messages" in client.subscribe("/no/snapshot", history=1)[0], "the cache is another thing"


def test_nothing_is_missed_or_doubled_between_the_snapshot_and_live(shared: Sidecar) -> None:
    """Subscribing again and again while messages stream in: numbers go on from what the answer says."""
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        number = 0
        for _ in range(100):
            for _ in range(20):
                number += 1
                publisher.packet("batch", number, [["/between/one", str(number)]])
            [result] = client.subscribe("/between/one")
            position = result["seq"]
            if result.get("messages"):
                snapshot = client.message()
                assert (snapshot[1], snapshot[3], snapshot[5]) == (position, str(position), {"kind": "snapshot"})
            publisher.packet("batch", number := number + 1, [["/between/one", str(number)]])
            while position < number:
                message = client.message()
                assert (message[1], message[3]) == (position + 1, str(position + 1))
                position += 1
            client.ask("unsubscribe", "unsubscribed", subjects=["/between/one"])
            assert client.quiet()


def test_nothing_follows_the_answer_to_an_unsubscribe(shared: Sidecar) -> None:
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        for turn in range(100):
            client.subscribe("/after/one")
            publisher.packet("batch", 2 * turn + 1, [["/after/one", ""]] * 50)
            number = client.say("unsubscribe", subjects=["/after/one"])
            publisher.packet("batch", 2 * turn + 2, [["/after/one", ""]] * 50)
            client.answer("unsubscribed", number)
            assert client.quiet()


def test_standard_quality_in_a_guaranteed_server(shared: Sidecar) -> None:
    """It goes live and into the snapshot, and takes no number; its acknowledgement means accepted."""
    standard = {"qos": "standard"}
    with WirePublisher(shared) as publisher, WireClient(shared) as client:
        [result] = client.subscribe("/quality/one")
        assert publisher.publish(
            ["/quality/one", "a"], ["/quality/one", "b", {"x": "1"}, standard], ["/quality/one", "c"]
        ) == [1, 0, 2]  # fmt: skip
        assert [client.message()[1] for _ in range(3)] == [1, 0, 2]
        publisher.publish(["/quality/one", "d", {"y": "2"}, standard])
        answer = client.ask("publish", "published", subject="/quality/one", content="e", qos="standard", closure="c")
        assert answer["status"] == "ok"
        assert "seq" not in answer
        since = {"/quality/one": [result["epoch"], 0]}
    with WireClient(shared) as client:
        client.subscribe("/quality/one", since=since)
        assert client.texts(2) == ["a", "c"]
        assert client.quiet()
        client.ask("unsubscribe", "unsubscribed", subjects=["/quality/one"])
        client.subscribe("/quality/one")
        assert client.message()[3:5] == ["e", {"x": "1", "y": "2"}]


def test_a_sequence_lives_as_long_as_its_process() -> None:
    """A position of an earlier process leads to a resynchronisation, never to other messages of the same number."""
    with Sidecar() as sidecar:
        with WirePublisher(sidecar) as publisher, WireClient(sidecar) as client:
            [result] = client.subscribe("/epoch/one")
            publisher.publish(["/epoch/one", "old 1"], ["/epoch/one", "old 2"])
            since = {"/epoch/one": [result["epoch"], 1]}
        sidecar.kill()
        sidecar.start()
        with WirePublisher(sidecar) as publisher, WireClient(sidecar) as client:
            publisher.publish(["/epoch/one", "new 1"], ["/epoch/one", "new 2"])
            [again] = client.subscribe("/epoch/one", since=since)
            assert again["epoch"] > result["epoch"]
            assert again["recovery"] == "resynchronised"
            assert client.message()[3:] == ["new 2", None, {"kind": "snapshot"}]
