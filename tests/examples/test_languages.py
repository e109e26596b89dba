"""The programs of docs/examples/languages, built and run against a real sidecar, as their page says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.client.control import Control
from tests.behaviours.__main__ import main
from tests.support.edge.calling import HttpPeer
from tests.support.edge.events import EventReader
from tests.support.languages import FOLDER, LANGUAGES, Language, Subscriber, publish
from tests.support.proxy import Proxy
from tests.support.sidecar import ROOT, Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.languages, pytest.mark.timeout(300)]

HERE = [language for language in LANGUAGES if language.is_here]
"""In CI, too, these are all that run: nothing that the tests install brings a toolchain, and it is no fault if there is
none. Node is there in any case, with Playwright and the library that the browsers' tests bring; outside CI the run says
at its end which were not."""

DRIVEN = [language for language in HERE if language.driver]
HELD = (
    "snapshot_then_live",
    "removed",
    "doubles_and_gaps",
    "standard_messages_during_a_gap",
    "a_gap_that_cannot_be_filled",
    "a_new_epoch_below_the_last_read",
    "a_new_epoch_above_the_last_read",
    "what_is_not_known",
    "a_pattern_finds_too_many",
    "a_notice_of_the_hook",
)
"""The cases of the table that a client of one page has to the end."""

PAGE = ROOT / "docs" / "develop" / "languages.md"


@pytest.fixture(scope="module", params=HERE, ids=lambda language: language.name)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What runs the program, which was built without a warning."""
    language: Language = request.param
    return language.built(tmp_path_factory.mktemp(language.name))


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    """For all that changes nothing for others; it keeps five messages, and compresses for who offers it."""
    with Sidecar(
        listen="clients://127.0.0.1:0?deflate=1,publishers://127.0.0.1:0", cache_messages=5, ping_seconds=1
    ) as running:
        yield running


@pytest.fixture(scope="module")
def guarded() -> Iterator[Sidecar]:
    """One that wants tokens."""
    with Sidecar(mode="jwt", token_secret=SECRET) as running:
        yield running


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """One of the test's own."""
    return f"/languages/{request.node.name}"


def site_of(where: Sidecar | Proxy) -> str:
    return f"http://{where.address if isinstance(where, Proxy) else where.ready['clients'][0]}"


def told(lines: list[str], key: str = "content") -> list[str]:
    return [json.loads(line)[key] for line in lines]


def send(shared: Sidecar, subject: str, *numbers: int) -> None:
    """One message after the other, so that each is written by itself; on a connection that nobody lets wait."""
    with HttpPeer(shared) as peer:
        for number in numbers:
            assert peer.publish({"subject": subject, "content": str(number)})[0]["status"] == "ok"


def test_each_program_has_its_place_on_the_page() -> None:
    """And each is in the table by which it is tested."""
    text = PAGE.read_text(encoding="utf-8")
    files = sorted(path.name for path in FOLDER.iterdir() if path.is_file())
    assert files == sorted(language.file for language in LANGUAGES)
    for language in LANGUAGES:
        assert f"(../examples/languages/{language.file})" in text


def test_what_is_published_arrives(command: list[str], shared: Sidecar, subject: str) -> None:
    """In both directions, with all that a text may hold, by a name and by a pattern."""
    odd = f"{subject}/with a blank, ä & 100%"
    text = 'a "quoted" \\ text,\ttabs\nand lines, äöü € 😀'
    with (
        Subscriber(command, site_of(shared), odd, f"{subject}/by/*") as program,
        EventReader(shared, f"{subject}/back") as reader,
    ):
        long = "long, " * 20_000
        with HttpPeer(shared) as peer:
            peer.publish({"subject": odd, "content": text, "fields": {"a": "ä"}})
            peer.publish({"subject": f"{subject}/by/pattern", "content": long})
        messages = until(lambda: len(found := program.events("message")) == 2 and found, 60)
        assert told(messages, "subject") == [odd, f"{subject}/by/pattern"]
        assert told(messages) == [text, long]
        with publish(command, site_of(shared), f"{subject}/back", text) as publisher:
            assert publisher.wait(60) == 0, publisher.output
        assert re.search(r'^\{.*"status":"ok".*\}$', publisher.output, re.MULTILINE), publisher.output
        while (event := reader.any()).name != "message":
            pass
        assert event.content["content"] == text


def test_it_comes_back_with_exactly_what_it_missed(command: list[str], shared: Sidecar, subject: str) -> None:
    """Cut while messages flow, and while it is away; each message comes once, in order, also of what is new since."""
    fresh = f"{subject}/fresh/one"
    with (
        Proxy(shared.client_url) as proxy,
        Subscriber(command, site_of(proxy), subject, f"{subject}/fresh/*") as program,
    ):
        send(shared, subject, 1, 2, 3)
        until(lambda: len(program.events("message")) == 3, 60)
        proxy.cut()
        send(shared, subject, 4, 5)
        until(lambda: len(program.events("message")) == 5, 60)
        proxy.shut()
        send(shared, subject, 6, 7, 8)
        send(shared, fresh, 1, 2)
        until(lambda: len(re.findall(r"; again in \d\.\d s$", program.output, re.MULTILINE)) >= 2, 60)
        proxy.open()
        until(lambda: len(program.events("message")) == 10, 60)
        send(shared, fresh, 3)
        send(shared, subject, 9)
        until(lambda: "9" in told(program.events("message")), 60)
        for name, last in ((subject, 9), (fresh, 3)):
            messages = [line for line in program.events("message") if json.loads(line)["subject"] == name]
            assert told(messages) == [str(number) for number in range(1, last + 1)]
        assert len(program.events("recovered")) >= 2
        assert program.events("resynchronised") == []


def test_a_gap_is_told(command: list[str], shared: Sidecar, subject: str) -> None:
    """It missed more than the server keeps: that is said, and the snapshot follows."""
    with Proxy(shared.client_url) as proxy, Subscriber(command, site_of(proxy), subject) as program:
        send(shared, subject, 1)
        until(lambda: program.events("message"), 60)
        proxy.shut()
        send(shared, subject, *range(2, 12))
        proxy.open()
        until(lambda: "11" in told(program.events("message")), 60)
        assert told(program.events("resynchronised"), "subject") == [subject]
        assert told(program.events("message")) == ["1", "11"]
        assert told(program.events("message"), "kind") == ["update", "snapshot"]


def test_a_connection_that_is_silent_is_given_up(command: list[str], shared: Sidecar, subject: str) -> None:
    """The server comments every second; nothing comes through, and nobody says that it has ended."""
    with Proxy(shared.client_url) as proxy, Subscriber(command, site_of(proxy), subject, SILENCE="5") as program:
        send(shared, subject, 1)
        until(lambda: program.events("message"), 60)
        proxy.stall()
        send(shared, subject, 2)
        until(lambda: "; again in" in program.output, 60)
        proxy.flow()
        send(shared, subject, 3)
        until(lambda: "3" in told(program.events("message")), 60)
        assert told(program.events("message")) == ["1", "2", "3"]


class Chunking(Proxy):
    """Hands answers on in chunks of seven bytes, as a proxy in front may to who asks with HTTP/1.1 (RFC 9112, 6.1)."""

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.onward() as (out_reader, out_writer):
            line = await reader.readuntil(b"\n")
            out_writer.write(line)
            answer = self._answer if b"HTTP/1.1" in line else self.pump
            await asyncio.gather(self.pump(reader, out_writer), answer(out_reader, writer))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)\r\n", head, re.IGNORECASE)
            left = int(length[1]) if length else 1 << 30
            head = head.replace(length[0], "") if length else head
            if " 101 " in head:  # a WebSocket has frames instead
                writer.write(head.encode())
                await self.pump(reader, writer)
                return
            writer.write(head.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
            while left and (piece := await reader.read(min(7, left))):
                left -= len(piece)
                writer.write(b"%X;extension\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        writer.close()


def test_answers_in_chunks(command: list[str], shared: Sidecar, subject: str) -> None:
    with Chunking(shared.client_url) as proxy, Subscriber(command, site_of(proxy), subject) as program:
        with publish(command, site_of(proxy), subject, "in chunks, ä") as publisher:
            assert publisher.wait(60) == 0, publisher.output
        until(lambda: program.events("message"), 60)
        proxy.cut()
        send(shared, subject, 2)
        until(lambda: len(program.events("message")) == 2, 60)
        assert told(program.events("message")) == ["in chunks, ä", "2"]


class Forgetting(Proxy):
    """Resets the connection on which the server says that it has stored something, before it is told; once."""

    has_forgotten = False

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.onward() as (out_reader, out_writer):
            asking = asyncio.create_task(self.pump(reader, out_writer))
            told = b""
            with contextlib.suppress(OSError):
                while piece := await out_reader.read(1 << 16):
                    told += piece
                    if not self.has_forgotten and b'"status":"ok"' in told:
                        self.has_forgotten = True
                        writer.transport.abort()
                        break
                    writer.write(piece)
            writer.close()
            await asking
            with contextlib.suppress(OSError):
                await out_writer.wait_closed()


def test_a_publication_is_stored_once(command: list[str], shared: Sidecar, subject: str) -> None:
    """Although nobody was there at first, and then the answer was lost."""
    with Forgetting(shared.client_url) as proxy:
        proxy.shut()
        with publish(command, site_of(proxy), subject, "once") as publisher:
            until(lambda: "; again in" in publisher.output, 60)
            assert publisher.process.poll() is None, publisher.output
            proxy.open()
            assert publisher.wait(120) == 0, publisher.output
        assert proxy.has_forgotten
        assert publisher.output.count("; again in") >= 2
    with HttpPeer(shared) as peer:
        assert [message["content"] for message in peer.history(subject=subject)[0]["messages"]] == ["once"]


@pytest.mark.parametrize("words", [["subscribe", "/a/b"], ["publish", "/a/b", "c"]], ids=["subscribe", "publish"])
def test_a_refused_token_ends_it(command: list[str], guarded: Sidecar, words: list[str]) -> None:
    """With the server's reason, and at once: to come back with the same token would not help."""
    if words[0] == "subscribe":
        program = Subscriber(command, site_of(guarded), *words[1:], token="nonsense", ready="")
    else:
        program = publish(command, site_of(guarded), *words[1:], token="nonsense")
    with program:
        assert program.wait(60) == 1, program.output
    said = r'refused: 401 \{.*"status":401|refused: 4501 bad_token: '
    assert re.match(said, program.output), program.output
    assert "again in" not in program.output


def test_rights(command: list[str], guarded: Sidecar, subject: str) -> None:
    """Who may read reads, a publication without the right fails, and whom an operator has closed stays away."""
    token = mint_jwt(subject, subscribe=[f"{subject}/mine"])
    with Subscriber(command, site_of(guarded), f"{subject}/mine", f"{subject}/other", token=token) as program:
        until(lambda: told(program.events("denied"), "subject") == [f"{subject}/other"], 60)
        with publish(command, site_of(guarded), f"{subject}/mine", "no", token=token) as publisher:
            assert publisher.wait(60) == 1, publisher.output
        assert re.search(r"^refused: .*denied", publisher.output, re.MULTILINE), publisher.output
        with Control(guarded.control) as control:
            assert control.disconnect(user=subject, reason="enough")["clients"] == 1
        assert program.wait(60) == 1, program.output
        assert re.search(r"^refused: .*4506.*enough", program.output, re.MULTILINE), program.output


def test_usage(command: list[str], guarded: Sidecar) -> None:
    with publish(command, site_of(guarded), "/a/b") as program:
        assert program.wait(60) == 1
    assert re.match(r"(refused: )?usage: .*subscribe SUBJECT\.\.\. \| publish SUBJECT CONTENT$", program.output.strip())


@pytest.mark.parametrize("language", DRIVEN, ids=lambda language: language.name)
def test_a_client_is_held_against_the_table(
    language: Language, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it has it has as the table says; of others it says that it has them not."""
    language.built(tmp_path)
    options = ["--transports", "websocket", "--part", "cases"]
    assert main([*options, "--only", *HELD, "--", *language.drives(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{len(HELD)} held, 0 failed, 0 skipped\n"
    assert main([*options, "--", *language.drives(tmp_path)]) == 0
    assert ", 0 failed, " in capsys.readouterr().out
