"""Events over HTTP on the client port, from outside: what the clients of the socket get, for whoever reads lines."""

from __future__ import annotations

import random
import socket
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control, ControlRefused
from tests.support.certificates import Certificate
from tests.support.edge.draining import OTHERS
from tests.support.edge.events import EventReader
from tests.support.edge.rules import rule, ruled
from tests.support.edge.spread import figures_by_worker
from tests.support.edge.wire import Socket, WireClient, WirePublisher
from tests.support.hook import Answering, named
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

IBM = "/stocks/us/IBM"


@pytest.fixture
def publisher(sidecar: Sidecar) -> Iterator[WirePublisher]:
    with WirePublisher(sidecar) as one:
        yield one


@pytest.mark.curl
def test_curl_is_enough(sidecar: Sidecar, publisher: WirePublisher) -> None:
    publisher.publish([IBM, "193", {"volume": "6.62M"}])
    address = sidecar.ready["clients"][0]
    command = ["curl", "-siN", "--max-time", "20", f"http://{address}/events?subjects={IBM},/chat/**"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        lines = []
        for line in curl.stdout:
            lines.append(line.rstrip("\n"))
            if "193" in line:
                publisher.publish(["/chat/a", "hello"])
            if "hello" in line:
                break
        curl.terminate()
    assert lines[0] == "HTTP/1.1 200 OK"
    assert {"Content-Type: text/event-stream", "X-Accel-Buffering: no"} <= set(lines)
    assert "Cache-Control: no-store, no-transform" in lines
    (snapshot,) = (line for line in lines if "193" in line)
    assert snapshot.startswith(f'data: {{"subject":"{IBM}","content":"193","fields":{{"volume":"6.62M"}},"epoch":')
    assert snapshot.endswith('"kind":"snapshot"}')
    assert any(line.startswith("id: ") for line in lines)


def test_who_comes_back_gets_exactly_what_it_missed(sidecar: Sidecar, publisher: WirePublisher) -> None:
    publisher.publish([IBM, "1"], ["/chat/a", "x"])
    with EventReader(sidecar, IBM, "/chat/**") as reader:
        assert sorted(reader.texts(2)) == ["1", "x"]
        publisher.publish([IBM, "2"])
        assert reader.texts(1) == ["2"]
    publisher.publish([IBM, "3"], ["/chat/a", "y"], ["/chat/b", "new"], [IBM, "4"])
    with EventReader(sidecar, IBM, "/chat/**", cursor=reader.cursor) as again:
        publisher.publish([IBM, "5"])
        events = [again.next() for _ in range(9)]
        told = [one.content["subject"] for one in events if one.name == "recovered"]
        assert sorted(told) == ["/chat/a", "/chat/b", IBM]
        contents = {
            subject: [
                one.content["content"] for one in events if one.name == "message" and one.content["subject"] == subject
            ]
            for subject in (IBM, "/chat/a", "/chat/b")
        }
        assert contents == {IBM: ["3", "4", "5"], "/chat/a": ["y"], "/chat/b": ["new"]}


def test_before_the_first_message_there_is_a_place_to_come_back_to(sidecar: Sidecar, publisher: WirePublisher) -> None:
    with EventReader(sidecar, IBM) as reader:
        assert reader.named("subscribed").cursor
    publisher.publish([IBM, "1"], [IBM, "2"])
    with EventReader(sidecar, IBM, cursor=reader.cursor) as again:
        assert again.named("recovered").content["messages"] == 2
        assert again.texts(2) == ["1", "2"]


def test_each_cursor_is_exact(sidecar: Sidecar, publisher: WirePublisher) -> None:
    """Whichever event was the last one that was read."""
    publisher.publish(*([f"/s/{n % 3}", str(n)] for n in range(9)))
    cursors: list[tuple[str, int]] = []
    with EventReader(sidecar, "/s/0", "/s/1", "/s/2") as reader:
        assert len(reader.texts(3)) == 3
        publisher.publish(*([f"/s/{n % 3}", str(n)] for n in range(9, 18)))
        cursors += [(reader.next().cursor, n) for n in range(9, 18)]
    for cursor, last in cursors:
        with EventReader(sidecar, "/s/0", "/s/1", "/s/2", cursor=cursor) as again:
            told = [again.named("recovered").content.get("messages", 0) for _ in range(3)]
            assert sum(told) == 17 - last
            assert sorted(map(int, again.texts(17 - last))) == list(range(last + 1, 18))


def test_cut_anywhere_nothing_is_missed_or_doubled(tmp_path: Path) -> None:
    """Two subjects by name and two by pattern, published to all the time; the server is killed now and then."""
    subjects, last = ["/cut/a", "/cut/b", "/more/c", "/more/d"], 400
    with Sidecar(journal="batch", data=tmp_path, workers=2) as sidecar:
        read: dict[str, list[int]] = {subject: [] for subject in subjects}
        cursor, sent, wanted, rounds = "", 0, 1, 0
        while sent < last or wanted:
            rounds += 1
            if rounds % 9 == 0 and sent < last:
                sidecar.kill()
                sidecar.start()
            with EventReader(sidecar, "/cut/a", "/cut/b", "/more/*", cursor=cursor) as reader:
                while not reader.cursor:
                    reader.next()
                if sent < last:
                    before, sent = sent, min(sent + random.randrange(1, 30), last)
                    with WirePublisher(sidecar) as publisher:
                        for number in range(before, sent):
                            publisher.publish(*([subject, str(number)] for subject in subjects))
                wanted = sent * len(subjects) - sum(map(len, read.values()))
                for _ in range(wanted if sent == last else random.randrange(wanted + 1)):
                    while (event := reader.next()).name != "message":
                        assert event.name in ("subscribed", "recovered", "not_ready", "epoch"), event
                    read[event.content["subject"]].append(int(event.content["content"]))
                cursor = reader.cursor
            for subject, numbers in read.items():
                assert numbers == list(range(len(numbers))), (subject, rounds)
        assert read == {subject: list(range(last)) for subject in subjects}


def test_a_restart_with_a_journal_loses_nothing(tmp_path: Path) -> None:
    with Sidecar(journal="interval", data=tmp_path) as sidecar:
        with WirePublisher(sidecar) as publisher, EventReader(sidecar, IBM) as reader:
            publisher.publish([IBM, "1"])
            assert reader.texts(1) == ["1"]
            publisher.publish([IBM, "2"])
        sidecar.kill()
        sidecar.start()
        with EventReader(sidecar, IBM, cursor=reader.cursor) as again, WirePublisher(sidecar) as publisher:
            publisher.publish([IBM, "3"])
            assert again.named("recovered").content["subject"] == IBM
            assert again.texts(2) == ["2", "3"]


def test_a_restart_without_one_is_told() -> None:
    with Sidecar() as sidecar:
        with WirePublisher(sidecar) as publisher, EventReader(sidecar, IBM) as reader:
            publisher.publish([IBM, "1"])
            assert reader.texts(1) == ["1"]
        sidecar.kill()
        sidecar.start()
        with EventReader(sidecar, IBM, cursor=reader.cursor) as again:
            assert again.named("resynchronised").content["subject"] == IBM


def test_all_workers_have_readers_who_come_back_to_any() -> None:
    with Sidecar(workers=2) as sidecar, WirePublisher(sidecar) as publisher:
        cursor, expected = "", 0
        seen: set[int] = set()
        while len(seen) < 2:
            with ExitStack() as stack:  # several, as one worker may take nearly all that come one by one
                readers = [stack.enter_context(EventReader(sidecar, IBM, cursor=cursor)) for _ in range(8)]
                for reader in readers:
                    reader.next()
                if cursor:
                    workers = enumerate(figures_by_worker(sidecar))
                    seen |= {number for number, worker in workers if worker["connections"]}
                expected += 1
                publisher.publish([IBM, str(expected)])
                assert [reader.texts(1) for reader in readers] == [[str(expected)]] * len(readers)
                cursor = readers[0].cursor
            until(lambda: not any(worker["connections"] for worker in figures_by_worker(sidecar)))


def test_history_and_conflation(sidecar: Sidecar, publisher: WirePublisher) -> None:
    publisher.publish(*([IBM, str(number)] for number in range(5)))
    with EventReader(sidecar, IBM, history=3) as reader:
        assert reader.texts(3) == ["2", "3", "4"]
    with EventReader(sidecar, IBM, conflation=587) as reader:
        assert reader.named("subscribed").content["conflation"] == 500
        assert reader.texts(1) == ["4"]
        publisher.publish([IBM, "5", {"bid": "1"}], [IBM, "6", {"ask": "2"}])
        event = reader.named("message")
        assert (event.content["content"], event.content["fields"]) == ("6", {"bid": "1", "ask": "2"})
        publisher.publish([IBM, "7"])
    with EventReader(sidecar, IBM, cursor=event.cursor, conflation=500) as reader:
        assert reader.named("recovered").content["messages"] == 1
        assert reader.texts(1) == ["7"]


def test_rights_are_those_of_the_socket() -> None:
    with ruled(rule(1, "/s/**")) as rights:
        alice = mint("alice", generation=rights.generation)
        with EventReader(rights.sidecar, "/s/a", "/t/a", token=alice) as reader:
            names = {event.name: event.content for event in (reader.next(), reader.next())}
            assert names["denied"]["subject"] == "/t/a"
            assert names["subscribed"]["subject"] == "/s/a"
            rights.publish(["/s/a", "1"])
            assert reader.texts(1) == ["1"]
            rights.change(rule(2, "/s/a", allow=False))
            assert reader.named("revoked").content == {"subjects": ["/s/a"], "reason": "rule 2 denies it"}
            rights.publish(["/s/a", "hidden"])
            rights.change(rule(3, "/t/a"))
            assert reader.named("subscribed").content["subject"] == "/t/a"
            rights.publish(["/t/a", "2"])
            assert reader.texts(1) == ["2"]
        with EventReader(rights.sidecar, "/s/b", token="", since="") as anonymous:
            assert anonymous.named("denied").content["subject"] == "/s/b"
        with EventReader(f"{rights.sidecar.client_url}", "/s/b", token="no.such.token") as refused:
            assert refused.status == 401
            assert "WWW-Authenticate: Bearer" in refused.head


def test_a_token_in_the_address() -> None:
    with ruled(rule(1, "/s/**")) as rights:
        with EventReader(rights.sidecar, "/s/a", token_="") as reader:
            assert reader.named("denied")
        token = mint("alice", generation=rights.generation)
        first = f"GET /events?subject=/s/a&token={token} HTTP/1.1\r\nHost: x\r\n\r\n"
        with Socket(rights.sidecar.client_url, first=first.encode()) as peer:
            seen = peer.read(len("HTTP/1.1 200 OK"))
            rights.publish(["/s/a", "for alice"])
            while b"for alice" not in seen:
                seen += peer.read(1)


def test_who_reads_slowly_gets_all_in_order(sidecar: Sidecar, publisher: WirePublisher) -> None:
    """More than the kernel holds waits in the outbox, half of which its rows leave before they are described."""
    filler = "x" * 1000
    with EventReader(sidecar, "/slow/a", receive_bytes=4096) as reader, WireClient(sidecar) as other:
        other.subscribe("/slow/a")
        reader.named("subscribed")
        for first in range(0, 600, 100):
            publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(first, first + 100)))
            assert len(other.texts(100)) == 100
        assert [int(text.partition(" ")[0]) for text in reader.texts(600)] == list(range(600))


def test_who_does_not_read_is_closed_and_comes_back() -> None:
    filler = "x" * 4000
    with (
        Sidecar(outbox_bytes_max=200_000, unsent_bytes_max=16_384) as sidecar,
        WirePublisher(sidecar) as publisher,
        EventReader(sidecar, "/slow/a", receive_bytes=4096) as reader,
        Control(sidecar.control) as control,
    ):
        reader.named("subscribed")
        sent = 0
        while not control.stats()["slow_closed"]:
            publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(sent, sent + 20)))
            sent += 20
        read, cursor = [], ""
        while (event := reader.next()).name == "message":
            read.append(int(event.content["content"].partition(" ")[0]))
            cursor = event.cursor
        assert (event.name, event.content["code"]) == ("close", 4001)
        assert read == list(range(len(read)))
        with EventReader(sidecar, "/slow/a", cursor=cursor) as again:
            assert again.named("recovered")
            rest = [int(text.partition(" ")[0]) for text in again.texts(sent - len(read))]
            assert read + rest == list(range(sent))


def test_who_lags_may_be_conflated() -> None:
    filler = "x" * 4000
    with (
        Sidecar(outbox_bytes_max=400_000, unsent_bytes_max=16_384) as sidecar,
        WirePublisher(sidecar) as publisher,
        EventReader(sidecar, "/slow/a", slow="conflate", receive_bytes=4096) as reader,
        Control(sidecar.control) as control,
    ):
        reader.named("subscribed")
        sent = 0
        while not control.stats()["slow_conflated"]:
            publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(sent, sent + 10)))
            sent += 10
        publisher.publish(*(["/slow/a", f"{number} {filler}"] for number in range(sent, sent + 10)))
        names: list[str] = []
        last = ""
        while "caught_up" not in names:
            event = reader.next()
            names.append(event.name)
            if event.name == "message":
                last = event.content["content"].partition(" ")[0]
        assert names.index("lagging") < names.index("caught_up")
        assert last == str(sent + 9)
        assert not control.stats()["slow_closed"]


def test_a_stream_that_is_silent_lives() -> None:
    """Its comments are taken by the reader's kernel, which is its sign of life."""
    with Sidecar(ping_seconds=1) as sidecar, EventReader(sidecar, IBM) as reader, WirePublisher(sidecar) as publisher:
        reader.named("subscribed")
        for _ in range(3):
            reader.comment()
        publisher.publish([IBM, "1"])
        assert reader.texts(1) == ["1"]


def test_a_drain_sends_it_elsewhere() -> None:
    with Sidecar() as sidecar, EventReader(sidecar, IBM) as reader:
        reader.named("subscribed")
        with Control(sidecar.control) as control:
            control.call("drain", {"servers": OTHERS})
            notice = reader.named("notice").content
            assert (notice["code"], notice["servers"]) == ("drain", OTHERS)
            assert reader.named("close").content["code"] == 4000
            assert reader.rest() == b""


def test_tls_and_origins(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    with (
        Sidecar(
            listen=f"{certificate.url('clients')},publishers://127.0.0.1:0", origins="https://a.example"
        ) as sidecar,
        WirePublisher(sidecar) as publisher,
    ):
        where, context = sidecar.ready["clients"][0], certificate.trusting()
        big = "x" * 300_000
        with EventReader(where, IBM, tls=context, headers="Origin: https://a.example\r\n") as reader:
            assert "Access-Control-Allow-Origin: https://a.example\r\n" in reader.head
            publisher.publish([IBM, "1"], [IBM, big])
            assert reader.texts(2) == ["1", big]
        with EventReader(where, IBM, tls=context, headers="Origin: https://b.example\r\n") as strange:
            assert strange.status == 403


@pytest.mark.parametrize(
    ("first", "status", "text"),
    [
        ("GET /events HTTP/1.1", 400, "name subjects or patterns"),
        ("GET /events?subjects=/a/b&slow=x HTTP/1.1", 400, "slow is "),
        ("DELETE /events?subjects=/a/b HTTP/1.1", 405, "GET"),
        ("GET /event HTTP/1.1", 404, "/events"),
    ],
)
def test_what_is_no_request_for_events(sidecar: Sidecar, first: str, status: int, text: str) -> None:
    from tests.support.edge.wire import Socket

    with Socket(sidecar.client_url, first=f"{first}\r\nHost: x\r\n\r\n".encode()) as peer:
        answer = peer.rest().decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert "Content-Type: application/problem+json" in answer
    assert text in answer


def test_what_a_page_asks_before(sidecar: Sidecar) -> None:
    """A page of another origin that sets a header asks first; a HEAD says what a GET would be."""
    lines = "Host: x\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\nConnection: close\r\n\r\n"
    with Socket(sidecar.client_url, first=f"OPTIONS /events HTTP/1.1\r\n{lines}".encode()) as peer:
        answer = peer.rest().decode()
    assert answer.startswith("HTTP/1.1 204 ")
    assert "Authorization, Content-Type, Idempotency-Key, Last-Event-ID" in answer
    with Socket(sidecar.client_url, first=f"HEAD /events?subjects=/a/b HTTP/1.1\r\n{lines}".encode()) as peer:
        answer = peer.rest().decode()
    assert answer.startswith("HTTP/1.1 200 ")
    assert "Content-Type: text/event-stream" in answer


def test_a_connection_that_has_asked_before_may_read_events(sidecar: Sidecar, publisher: WirePublisher) -> None:
    """As that of a browser, which keeps them; what is refused is told, and the connection ends."""
    publisher.publish([IBM, "193"])
    first = (
        f"GET /snapshot?subject={IBM} HTTP/1.1\r\nHost: x\r\n\r\nGET /events?subjects={IBM} HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    with Socket(sidecar.client_url, first=first.encode()) as peer:
        seen = b""
        while b'"kind":"snapshot"}\n\n' not in seen:
            seen += peer.read(1)
        publisher.publish([IBM, "194"])
        while b'"194"' not in seen:
            seen += peer.read(1)
        assert seen.count(b"HTTP/1.1 200 OK") == 2
    with Socket(sidecar.client_url, first=first.replace("subjects=", "none=").encode()) as peer:
        answer = peer.rest().decode()
    assert answer.count("HTTP/1.1 200 OK") == 1
    assert answer.count("HTTP/1.1 400 ") == 1


def test_operators_see_it_and_end_it(sidecar: Sidecar) -> None:
    with EventReader(sidecar, IBM, headers="User-Agent: reader/1\r\n") as reader, Control(sidecar.control) as control:
        reader.named("subscribed")
        (found,) = control.call("clients", {})["clients"]
        assert (found["transport"], found["encoding"], found["program"]) == ("events", "json", "reader/1")
        with pytest.raises(ControlRefused, match="only a WebSocket answers pings"):
            control.call("ping", {"connection": found["connection"]})
        control.call("disconnect", {"connection": found["connection"], "reason": "enough"})
        assert reader.named("close").content["code"] == 4506


def test_a_malformed_cursor_is_told_and_the_stream_begins_anew(sidecar: Sidecar, publisher: WirePublisher) -> None:
    publisher.publish([IBM, "1"])
    with EventReader(sidecar, IBM, cursor="no-cursor!") as reader:
        assert reader.named("refused").content["code"] == "invalid"
        assert reader.named("subscribed")
        assert reader.texts(1) == ["1"]


def test_bytes_that_are_under_way_are_no_silence() -> None:
    """Over a long line the reader's kernel has always something to acknowledge yet; here it puts that off."""
    with Sidecar(ping_seconds=1) as sidecar, WirePublisher(sidecar) as publisher, EventReader(sidecar, IBM) as reader:
        pings = 0
        while pings < 4:
            reader.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            publisher.publish([IBM, "1"])
            pings += reader.comments()
        assert "ping_timeout" not in sidecar.log


def test_what_it_says_after_its_request_is_not_heard(sidecar: Sidecar, publisher: WirePublisher) -> None:
    with EventReader(sidecar, IBM) as reader:
        reader.send(b"x" * 100_000)
        publisher.publish([IBM, "1"])
        assert reader.texts(1) == ["1"]


def test_a_token_may_be_any_text() -> None:
    """In mode ``custom``: the bytes of the header are UTF-8, as curl sends what it is given."""
    with Sidecar(mode="custom") as custom, Answering(custom.control, named) as hook:
        for token in ("Zoë", "日本 €"):
            with EventReader(custom, IBM, token=token) as reader:
                assert reader.status == 200
                until(lambda token=token: token in [question.get("token") for question in hook.asked])


class GzipReader(EventReader):
    """A reader that takes its stream compressed, as every browser does; ``came`` counts the bytes on the wire."""

    def __init__(self, where: Sidecar, *subjects: str, **more: Any) -> None:
        self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.came = 0
        self._events = b""
        super().__init__(where, *subjects, headers="Accept-Encoding: gzip, deflate, br\r\n", **more)
        assert "Content-Encoding: gzip" in self.head

    def _block(self) -> list[str]:
        while b"\n\n" not in self._events:
            data = self.buffer or self.read(1) + self.buffer
            self.buffer = b""
            self.came += len(data)
            self._events += self._inflate.decompress(data)
        block, _, self._events = self._events.partition(b"\n\n")
        return block.decode().split("\n")


@pytest.fixture(scope="module")
def compressing() -> Iterator[Sidecar]:
    with Sidecar(listen="clients://127.0.0.1:0?deflate=300,publishers://127.0.0.1:0") as sidecar:
        yield sidecar


LONG = "the same words again and again, " * 400


def test_who_takes_it_compressed_gets_the_same_in_less(compressing: Sidecar) -> None:
    """Beside readers that do not, and after an interruption; short messages stay as they are."""
    with WirePublisher(compressing) as publisher, EventReader(compressing, IBM) as plain:
        with GzipReader(compressing, IBM) as one, GzipReader(compressing, IBM) as other:
            assert "Vary: Accept-Encoding" in plain.head and "Content-Encoding" not in plain.head
            publisher.publish([IBM, "short"], [IBM, LONG], [IBM, "3"])
            assert plain.texts(3) == one.texts(3) == other.texts(3) == ["short", LONG, "3"]
            assert one.came < len(LONG) // 2
        publisher.publish([IBM, "missed"])
        with GzipReader(compressing, IBM, cursor=one.cursor) as again:
            assert again.named("recovered").content["subject"] == IBM
            assert again.texts(1) == ["missed"]
            publisher.publish(*([IBM, f"{number} {LONG}"] for number in range(200)))
            assert again.texts(200) == [f"{number} {LONG}" for number in range(200)]
            assert again.came < 200 * len(LONG) // 10


def test_a_slow_reader_of_a_compressed_stream_loses_nothing(compressing: Sidecar) -> None:
    """What its socket does not take waits, in whole pieces and in parts of them."""
    rows = [["/slow/a", f"{number} {random.Random(number).randbytes(4000).hex()}"] for number in range(200)]
    with WirePublisher(compressing) as publisher, GzipReader(compressing, "/slow/a", receive_bytes=4096) as slow:
        for at in range(0, len(rows), 20):
            publisher.publish(*rows[at : at + 20])
        assert slow.texts(len(rows)) == [content for _, content in rows]


@pytest.mark.curl
def test_curl_reads_a_compressed_stream(compressing: Sidecar) -> None:
    with Control(compressing.control) as control:
        control.publish([["/curl/a", LONG]])
        address = compressing.ready["clients"][0]
        command = ["curl", "-sN", "--compressed", "--max-time", "20", f"http://{address}/events?subjects=/curl/a"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
            assert curl.stdout is not None
            assert any(LONG in line for line in curl.stdout)
            curl.terminate()
