"""Reading over HTTP: snapshots as Django answers them, history by pages, answers that wait for news, who is there."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.calling import HttpPeer, call_bytes
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt

BAD_QUERIES = (
    "/snapshot",
    "/snapshot?subject=",
    "/snapshot?subject=nothing",
    "/snapshot?subject=/a/*",
    "/snapshot?subject=/a/b&subject=/a/c",
    "/snapshot?subject=/a/b&limit=3",
    "/snapshot?subject=/a/%FF",
    "/api/history",
    "/api/history?subject=/a/b&subject=/a/b",
    "/api/history?subject=/a/b&limit=0",
    "/api/history?subject=/a/b&limit=501",
    "/api/history?subject=/a/b&limit=x",
    "/api/history?subject=/a/b&limit=1&limit=2",
    "/api/history?subject=/a/b&since=1",
    "/api/history?subject=/a/b&since=1,-1",
    "/api/history?subject=/a/b&since=1,2&since=1,2",
    "/api/history?subject=/a/b&wait=1",
    "/api/history?subject=/a/b&since=1,2&wait=31",
    "/api/history?subject=/a/b&offset=3",
    "/api/history?" + "&".join(f"subject=/a/{number}" for number in range(101)),
    "/api/presence?subject=nothing",
    "/api/presence",  # is not kept there
)


@pytest.mark.parametrize("path", BAD_QUERIES)
def test_a_query_that_is_none_is_refused_and_the_connection_goes_on(shared: Sidecar, path: str) -> None:
    with HttpPeer(shared) as peer:
        answer = peer.ask("GET", path)
        assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json"), answer
        assert answer.json["title"] == "Bad Request"
        assert answer.json["detail"]
        assert peer.ask("GET", "/snapshot?subject=/none/here").status == 404


def test_a_snapshot_is_what_django_answers(shared: Sidecar) -> None:
    """The newest content, each field's newest value, and where it stands: what the control socket says (8.1)."""
    with HttpPeer(shared) as peer, Control(shared.control) as control:
        assert peer.ask("GET", "/snapshot?subject=/snap/one").json["detail"] == "no message has been published yet"
        peer.publish({"subject": "/snap/one", "content": "1", "fields": {"a": "1", "b": "2"}})
        peer.publish({"subject": "/snap/one", "content": "2", "fields": {"b": "3"}, "as_of": "noon"})
        peer.publish({"subject": "/snap/one", "content": "no", "retained": False})
        answer = peer.ask("GET", "/snapshot?subject=/snap/one")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json == control.snapshot("/snap/one", None)["message"] | {"kind": "snapshot"}
        assert (answer.json["content"], answer.json["fields"]) == ("2", {"a": "1", "b": "3"})
        assert (answer.json["seq"], answer.json["as_of"]) == (3, "noon")


def contents(told: dict[str, Any]) -> list[str]:
    """What the messages say."""
    return [message["content"] for message in told["messages"]]


def test_the_newest_and_what_follows_a_position(shared: Sidecar) -> None:
    with HttpPeer(shared) as peer:
        peer.publish([{"subject": "/hist/one", "content": str(number)} for number in range(1, 11)])
        peer.publish([{"subject": "/hist/two", "content": "a", "closure": "c", "retained": False}])
        one, two, none = peer.history(subject=["/hist/one", "/hist/two", "/hist/none"], limit=3)
        assert contents(one) == ["8", "9", "10"]
        assert (one["seq"], one["more"], one["status"], "recovery" in one) == (10, False, "ok", False)
        assert {message["kind"] for message in one["messages"]} == {"historical"}
        assert two["messages"][0] | {"epoch": 0, "time": 0} == {
            "subject": "/hist/two",
            "content": "a",
            "fields": {},
            "epoch": 0,
            "seq": 1,
            "time": 0,
            "as_of": None,
            "kind": "historical",
            "retained": False,
            "closure": "c",
        }
        assert (none["seq"], none["messages"]) == (0, [])
        epoch, found, pages, seq = one["epoch"], [], 0, 0
        while True:
            (page,) = peer.history(subject="/hist/one", since=f"{epoch},{seq}", limit=4)
            assert page["recovery"] == "recovered"
            found += contents(page)
            pages, seq = pages + 1, page["seq"]
            if not page["more"]:
                break
        assert (pages, found) == (3, [str(number) for number in range(1, 11)])
        assert contents(peer.history(subject="/hist/one", since=f"{epoch},10")[0]) == []
        (none,) = peer.history(subject="/hist/none", since=f"{epoch},0")
        assert (none["recovery"], none["messages"]) == ("recovered", [])


def test_what_the_cache_does_not_have_any_more(shared: Sidecar) -> None:
    """It is said, and the snapshot takes its place."""
    with Sidecar(cache_messages=3) as sidecar, HttpPeer(sidecar) as peer:
        peer.publish([{"subject": "/gap/one", "content": str(number), "fields": {"f": "x"}} for number in range(10)])
        (whole,) = peer.history(subject="/gap/one")
        assert contents(whole) == ["7", "8", "9"]
        assert peer.history(subject="/gap/one", since=f"{whole['epoch']},7")[0]["recovery"] == "recovered"
        for since in (f"{whole['epoch']},5", f"{whole['epoch']},99", f"{whole['epoch'] + 1},3", "1,3"):
            (gap,) = peer.history(subject="/gap/one", since=since)
            assert (gap["recovery"], contents(gap), gap["seq"]) == ("resynchronised", ["9"], 10)
            assert gap["messages"][0]["kind"] == "snapshot"
        peer.publish([{"subject": "/gap/one", "removed": True}])
        (gone,) = peer.history(subject="/gap/one", since=f"{whole['epoch']},5")
        assert (gone["recovery"], gone["seq"]) == ("resynchronised", 11)
        assert [(one["kind"], one["removed"], one["fields"]) for one in gone["messages"]] == [("snapshot", True, {})]
        answer = peer.ask("GET", "/snapshot?subject=/gap/one")
        assert (answer.status, answer.json["detail"]) == (404, "the subject was removed")


def test_a_page_is_bounded_in_bytes(shared: Sidecar) -> None:
    """What does not fit follows on the next one, a message that is larger than a page too."""
    sizes = [100_000, 100_000, 100_000, 800_000, 10, 300_000]
    with WirePublisher(shared) as publisher, HttpPeer(shared) as peer:
        publisher.publish(*(["/big/one", "x" * size] for size in sizes), ["/big/two", "y"])
        found: list[int] = []
        places = {"/big/one": "0", "/big/two": "0"}
        (one,) = peer.history(subject="/big/one", limit=6)
        assert ([len(text) for text in contents(one)], one["more"]) == ([300_000], True), "the newest that have room"
        epoch = one["epoch"]
        for _ in range(10):
            told = peer.history(subject=list(places), since=[f"{epoch},{seq}" for seq in places.values()])
            found += [len(text) for text in contents(told[0])]
            places = {one["subject"]: one["seq"] for one in told}
            if not any(one["more"] for one in told):
                break
        assert (found, places) == (sizes, {"/big/one": 6, "/big/two": 1})


def test_an_answer_waits_for_news() -> None:
    """On every worker: until something comes, or the time is over; an old position is answered at once."""
    with Sidecar(workers=2) as sidecar, HttpPeer(sidecar) as writer:
        writer.publish({"subject": "/news/one", "content": "0"})
        (one,) = writer.history(subject="/news/one")
        place = {"subject": ["/news/one", "/news/two"], "since": [f"{one['epoch']},1", f"{one['epoch']},0"]}
        peers = [HttpPeer(sidecar) for _ in range(6)]
        got: list[Any] = []
        threads = [
            threading.Thread(target=lambda peer=peer: got.append(peer.history(**place, wait=9))) for peer in peers
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        assert got == []
        writer.publish({"subject": "/news/two", "content": "1"})
        for thread in threads:
            thread.join()
        assert [[contents(two) for two in told] for told in got] == [[[], ["1"]]] * 6
        assert contents(peers[0].history(subject="/news/one", since=f"{one['epoch']},0", wait=9)[0]) == ["0"]
        assert contents(peers[0].history(subject="/news/one", since=f"{one['epoch']},1", wait=1)[0]) == []
        for peer in peers:
            peer.sock.close()


def test_snapshots_in_place_of_messages_are_bounded_in_bytes(shared: Sidecar) -> None:
    """Those that do not fit follow on the next page: the first one of all has room always."""
    names = [f"/bounded/{number}" for number in range(5)]
    with HttpPeer(shared) as peer:
        for name in names:
            peer.publish({"subject": name, "content": "x" * 100_000})
        places = dict.fromkeys(names, (1, 1))
        pages: list[list[str]] = []
        for _ in names:
            told = peer.history(subject=names, since=[f"{epoch},{seq}" for epoch, seq in places.values()])
            pages.append([one["subject"] for one in told if one["messages"]])
            places = {one["subject"]: (one["epoch"], one["seq"]) for one in told}
            assert all(one["recovery"] == "resynchronised" for one in told if one["messages"])
            if not any(one["more"] for one in told):
                break
        assert pages == [names[:2], names[2:4], names[4:]]


def test_what_may_not_be_read_is_no_news() -> None:
    """Who waits for several subjects does not learn that something comes to one that is denied."""
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar, HttpPeer(sidecar) as writer, HttpPeer(sidecar) as reader:
        own = {"Authorization": f"Bearer {mint_jwt('writer', both=['/**'])}"}
        writer.publish([{"subject": "/open/a", "content": "0"}, {"subject": "/secret/b", "content": "0"}], **own)
        token = {"Authorization": f"Bearer {mint_jwt('ann', subscribe=['/open/*'])}"}
        place = reader.ask("GET", "/api/history?subject=/open/a", **token).json["subjects"][0]
        query = f"subject=/open/a&since={place['epoch']},{place['seq']}&subject=/secret/b&since=0,0&wait=10"
        reader.send(call_bytes("GET", f"/api/history?{query}", **token))
        assert reader.silent(0.5)
        writer.publish([{"subject": "/open/a", "content": "1"}], **own)
        one, two = reader.response().json["subjects"]
        assert (contents(one), two["status"]) == (["1"], "denied")


def test_standard_delivery_has_no_history() -> None:
    with Sidecar(delivery="standard") as sidecar, HttpPeer(sidecar) as peer:
        peer.publish([{"subject": "/std/one", "content": text} for text in "ab"])
        (told,) = peer.history(subject="/std/one")
        assert told["messages"] == []
        (told,) = peer.history(subject="/std/one", since=f"{told['epoch']},1")
        assert (told["recovery"], contents(told)) == ("resynchronised", ["b"])
        (told,) = peer.history(subject="/std/one", since=f"{told['epoch']},{told['seq']}", wait=1)
        assert (told["recovery"], contents(told)) == ("recovered", [])


@pytest.mark.parametrize("workers", [1, 2])
def test_who_is_there(workers: int) -> None:
    with Sidecar(presence="/room/**", workers=workers) as sidecar, WireClient(sidecar) as client:
        client.subscribe("/room/one")
        with HttpPeer(sidecar) as peer:
            for _ in range(50):
                found = peer.ask("GET", "/api/presence?subject=/room/one").json
                if found["anonymous"]:
                    break
                time.sleep(0.1)
            assert found == {"subject": "/room/one", "users": [], "anonymous": 1, "more": 0, "stale": found["stale"]}
            assert peer.ask("GET", "/api/presence").json["anonymous"] >= 1
            assert peer.ask("GET", "/api/presence?subject=/other/one").status == 400


def test_a_page_in_json_is_whole(shared: Sidecar) -> None:
    """Texts of any script come as they were sent."""
    text = 'Zürich "№ 5" 東京 \U0001f600 \x00'
    with HttpPeer(shared) as peer:
        peer.publish({"subject": "/text/ü", "content": text})
        answer = peer.ask("GET", "/snapshot?subject=/text/%C3%BC")
        assert json.loads(answer.body)["content"] == text
