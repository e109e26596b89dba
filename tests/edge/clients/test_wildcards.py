"""Subscriptions to patterns through real sockets (features.md A10, protocol.md 3.8)."""

from __future__ import annotations

from itertools import count

import pytest

from tests.support.edge.patterns import found
from tests.support.edge.rules import rule, ruled
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar

_DESKS = count(1)


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_what_is_there_and_what_comes_to_be(shared: Sidecar, form: str) -> None:
    """Snapshots of what a pattern finds; a later subject from its first message on; nothing twice; then the end."""
    desk = f"/desk{next(_DESKS)}"
    with WireClient(shared, form) as ann, WireClient(shared) as bob, WirePublisher(shared) as publisher:
        publisher.publish([f"{desk}/us/IBM", "1", {"bid": "b"}], [f"{desk}/us/IBM", "2"], [f"{desk}/eu/SAP", "9"])
        assert bob.subscribe(f"{desk}/us/OWN")[0]["subject"] == f"{desk}/us/OWN"  # there, but never published to
        assert ann.subscribe(f"{desk}/us/*") == [{"subject": f"{desk}/us/*"}]
        one = found(ann, f"{desk}/us/IBM")[f"{desk}/us/IBM"]
        assert (one["pattern"], one["seq"], one["messages"]) == (f"{desk}/us/*", 2, 1)
        assert ann.message()[3:] == ["2", {"bid": "b"}, {"kind": "snapshot"}]
        publisher.publish(
            [f"{desk}/us/NEW", "3"],
            [f"{desk}/us/NEW", "4"],
            [f"{desk}/us/deep/X", "no"],
            [f"{desk}/us/ping", "5", None, {"retained": False, "qos": "standard"}],
            [f"{desk}/us/OWN", "6"],
        )
        got = [value for value in (ann.next() for _ in range(7)) if isinstance(value, list)]
        assert [one[3] for one in got if ann.subjects[one[0]] == f"{desk}/us/NEW"] == ["3", "4"]
        assert sorted(one[3] for one in got) == ["3", "4", "5", "6"]  # subjects have no order among themselves
        assert bob.message()[3] == "6"
        assert ann.ask("unsubscribe", "unsubscribed", subjects=[f"{desk}/us/*"])["subjects"] == [f"{desk}/us/*"]
        publisher.publish([f"{desk}/us/IBM", "7"], [f"{desk}/us/LATER", "8"])
        assert ann.quiet()


def test_coming_back(shared: Sidecar) -> None:
    """What was missed of subjects that were known, and all of those that came to be meanwhile."""
    desk = f"/desk{next(_DESKS)}"
    with WirePublisher(shared) as publisher:
        with WireClient(shared) as ann:
            publisher.publish([f"{desk}/a", "1"])
            ann.subscribe(f"{desk}/*")
            epoch = found(ann, f"{desk}/a")[f"{desk}/a"]["epoch"]
        publisher.publish([f"{desk}/a", "2"], [f"{desk}/b", "1"], [f"{desk}/b", "2"])
        with WireClient(shared) as ann:
            ann.subscribe(f"{desk}/*", since={f"{desk}/*": [0, 0], f"{desk}/a": [epoch, 1]})
            results = found(ann, f"{desk}/a", f"{desk}/b")
            assert [results[f"{desk}/{name}"]["recovery"] for name in "ab"] == ["recovered"] * 2
            got = [ann.message() for _ in range(3)]
            assert sorted((ann.subjects[one[0]], one[1], one[3]) for one in got) == [
                (f"{desk}/a", 2, "2"),
                (f"{desk}/b", 1, "1"),
                (f"{desk}/b", 2, "2"),
            ]


def test_conflation_and_history_of_each_subject(shared: Sidecar) -> None:
    desk = f"/desk{next(_DESKS)}"
    with WireClient(shared) as ann, WirePublisher(shared) as publisher:
        publisher.publish(*([f"{desk}/a", str(number)] for number in range(5)))
        ann.subscribe(f"{desk}/*", history=2, conflation=150)
        one = found(ann, f"{desk}/a")[f"{desk}/a"]
        assert (one["messages"], one["conflation"]) == (2, 100)
        assert ann.texts(2) == ["3", "4"]
        publisher.publish(*([f"{desk}/new", str(number)] for number in range(5)))
        assert found(ann, f"{desk}/new")[f"{desk}/new"]["conflation"] == 100
        assert ann.texts(1) == ["4"]


def test_rights_are_followed_on_every_subject() -> None:
    """Who may not read a subject is not told of it; a rule that comes brings it, one that goes takes it."""
    with ruled(rule(1, "/s/**"), rule(2, "/s/secret", allow=False)) as rules, rules.client() as ann:
        rules.publish(["/s/open", "1"], ["/s/secret", "1"])
        ann.subscribe("/s/*")
        assert found(ann, "/s/open").keys() == {"/s/open"}
        assert ann.texts(1) == ["1"]
        rules.publish(["/s/secret", "2"], ["/s/open", "2"])
        assert ann.texts(1) == ["2"]
        rules.change(removed=[2])
        assert found(ann, "/s/secret")["/s/secret"]["pattern"] == "/s/*"
        assert ann.texts(1) == ["2"]
        rules.change(rule(3, "/s/open", allow=False))
        assert ann.answer("revoked")["subjects"] == ["/s/open"]
        rules.publish(["/s/open", "3"], ["/s/secret", "3"], ["/s/more", "3"])
        assert [(ann.subjects[one[0]], one[3]) for one in (ann.message(), ann.message())] == [
            ("/s/secret", "3"),
            ("/s/more", "3"),
        ]
        assert ann.quiet()
