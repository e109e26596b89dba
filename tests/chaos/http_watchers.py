"""Subscribers of a few lines over plain HTTP: a session, whose commands are posted, and a bare reader of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import quote

from .model import Answered, Connected, Moved, Noticed, Seen, Told
from .watcher import CONNECT_SECONDS, Watcher, now_ms

AGAIN_SECONDS = 0.1
"""Until what was posted without an answer is posted again."""

BLOCK_BYTES_MAX = 1 << 24


class _OverHttp(Watcher):
    """Reads a stream; who derives from it says where that is, and what its events mean."""

    async def _open(self, address: str, path: str, headers: str = "") -> asyncio.StreamReader:
        """Begin a stream; raises EOFError where there is none."""
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, self.writer = await asyncio.open_connection(host, int(port), limit=BLOCK_BYTES_MAX)
            self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise EOFError(head.split(b"\r\n")[0].decode(errors="replace"))
        return reader

    async def _event(self, reader: asyncio.StreamReader) -> tuple[str, Any, str]:
        """The next event: name, content, cursor; a comment has no name."""
        async with asyncio.timeout(self.silence):
            block = await reader.readuntil(b"\n\n")
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if line and not line.startswith(":"))
        content = json.loads(fields["data"]) if "data" in fields else None
        return fields.get("event", "message") if "data" in fields else "", content, fields.get("id", "")


class SessionWatcher(_OverHttp):
    """A session over HTTP (docs/reference/sessions.md)."""

    _said: asyncio.Queue[dict[str, Any]] | None = None

    def say(self, command: dict[str, Any]) -> None:
        if self._said is not None:
            self._said.put_nowait(command)

    async def serve(self, address: str) -> str:
        reader = await self._open(address, "/session/stream")
        _, terms, _ = await self._event(reader)
        self._said = asyncio.Queue()
        self.connected = True
        self.note(Connected(now_ms(), address))
        self.say({"op": "connect", "id": self.next_id()})
        self.ask(list(self.subjects.values()))
        tasks = [
            asyncio.create_task(self.ping()),
            asyncio.create_task(self._post_all(address, terms["session"], self._said)),
        ]
        try:
            while True:
                name, content, _ = await self._event(reader)
                if name == "close":
                    return f"{content['code']} {content['reason']}"
                if name == "message":
                    self.take(now_ms(), content)
        finally:
            self._said = None
            for task in tasks:
                task.cancel()

    async def _post_all(self, address: str, session: str, said: asyncio.Queue[dict[str, Any]]) -> None:
        """Post what is said, in order, each until it is answered; the session is over where there is none any more."""
        number = 1
        while True:
            commands = [await said.get()]
            while not said.empty():
                commands.append(said.get_nowait())
            while (status := await self._post(address, session, number, commands)) not in (204, 404, 409):  # noqa: ASYNC110
                await asyncio.sleep(AGAIN_SECONDS)
            if status != 204:
                self.cut()
                return
            number += len(commands)

    async def _post(self, address: str, session: str, number: int, commands: list[dict[str, Any]]) -> int:
        """The status of the answer, 0 without one."""
        host, _, port = address.rpartition(":")
        body = b"\n".join(json.dumps(command).encode() for command in commands)
        head = (
            f"POST /session/{session}?n={number} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    writer.write(head.encode() + body)
                    return int((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])
                finally:
                    writer.transport.abort()
        return 0


class EventsWatcher(_OverHttp):
    """A reader of events (docs/reference/events.md), which comes back with the last cursor that it was given."""

    _cursor = ""

    async def serve(self, address: str) -> str:
        subjects = ",".join(quote(subject) for subject in self.subjects)
        cursor = f"Last-Event-ID: {self._cursor}\r\n" if self._cursor else ""
        reader = await self._open(address, f"/events?subjects={subjects}", cursor)
        self.connected = True
        self.note(Connected(now_ms(), address))
        while True:
            name, content, cursor = await self._event(reader)
            self._cursor = cursor or self._cursor
            if name == "close":
                return f"{content['code']} {content['reason']}"
            if content is not None:
                self._told(now_ms(), name, content)

    def _told(self, at: int, name: str, content: dict[str, Any]) -> None:
        match name:
            case "message":
                epoch, seq = content["epoch"], content["seq"]
                self.note(Seen(at, content["subject"], epoch, seq, content["kind"], content["content"]))
                self.subjects[content["subject"]].position = epoch, seq
            case "subscribed" | "recovered" | "resynchronised" if "seq" in content:
                subject, head = content["subject"], (content["epoch"], content["seq"])
                recovery = "" if name == "subscribed" else name
                self.note(Answered(at, subject, *head, recovery, content.get("messages", 0), None))
                self.subjects[subject].waiting = False
                if recovery != "recovered":
                    self.subjects[subject].position = head
                if not any(one.waiting for one in self.subjects.values()):
                    self.ready.set()
            case "resynchronised":
                self.note(Told(at, content["subject"], name))
            case "epoch":
                self.note(Moved(at, content["subject"], content["epoch"], content["seq"]))
            case "notice":
                self.note(Noticed(at, content["code"]))
            case "not_ready" | "invalid" | "limit" | "denied" | "refused":
                self.note(Noticed(at, name, content.get("subject", "")))
        self.last_ms = at
