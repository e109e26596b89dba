"""Bare clients of sessions over HTTP: what they say is posted, what they hear is read from a stream, or asked for."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from tests.support.edge.wire import Ended, Socket, WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

LINES = "application/x-ndjson"


class Posted(NamedTuple):
    """The answer to a request: its status, its headers with small names, its body, as JSON where it is."""

    status: int
    headers: dict[str, str]
    body: Any


class Caller:
    """A kept connection for requests; ``source`` is the address that it comes from."""

    def __init__(self, where: Sidecar | str, *, tls: ssl.SSLContext | None = None, source: str = "") -> None:
        address = where if isinstance(where, str) else where.ready["clients"][0]
        more: dict[str, Any] = {"timeout": PATIENCE_SECONDS, "source_address": (source, 0) if source else None}
        self.connection = (
            http.client.HTTPConnection(address, **more)
            if tls is None
            else http.client.HTTPSConnection(address, context=tls, **more)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Posted:
        """One request and its answer."""
        self.connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        return self.answer()

    def answer(self) -> Posted:
        """The answer to what was asked."""
        response = self.connection.getresponse()
        body = response.read()
        kind = response.headers.get("content-type", "")
        read = json.loads(body) if kind in ("application/json", "application/problem+json") else body
        return Posted(response.status, {name.lower(): text for name, text in response.headers.items()}, read)


def caller_at(sidecar: Sidecar, worker: int) -> Caller:
    """A kept connection to this worker."""
    while True:
        caller = Caller(sidecar)
        opened = json.loads(caller.ask("GET", "/session/poll").body)["session"]
        caller.ask("DELETE", f"/session/{opened}")
        if opened.partition("-")[0] == str(worker):
            return caller
        caller.connection.close()


class Session(WireClient):
    """What both kinds have in common; to tests they are as a client of the WebSocket.

    ``terms`` is what was told first, ``said`` the number of frames so far. ``poster`` makes the connection for what is
    said; by default it is one to the same address.
    """

    terms: dict[str, Any]

    def __init__(self, where: Sidecar | str, poster: Callable[[], Caller] | None = None) -> None:
        self.poster = (poster or (lambda: Caller(where)))()
        self.form = "json"
        self.said = self.number = 0
        self.subjects = {}

    @property
    def id(self) -> str:
        """The id of the session."""
        number: str = self.terms["session"]
        return number

    @property
    def worker(self) -> int:
        """The worker that has the session."""
        return int(self.id.partition("-")[0])

    def post(self, *frames: dict[str, Any] | bytes, first: int = 0, **headers: str) -> Posted:
        """Say these frames, the first of which is the next one, or has this number."""
        first = first or self.said + 1
        body = b"\n".join(frame if isinstance(frame, bytes) else json.dumps(frame).encode() for frame in frames)
        told = self.poster.ask("POST", f"/session/{self.id}?n={first}", body, **({"Content_Type": LINES} | headers))
        if told.status == 204:
            self.said = max(self.said, first + len(frames) - 1)
        return told

    def leave(self) -> Posted:
        """Say that the client goes."""
        return self.poster.ask("DELETE", f"/session/{self.id}")

    def frame(self, opcode: int, payload: bytes, *, final: bool = True) -> None:
        """There are no frames but what is said."""

    def say(self, op: Any, **keys: Any) -> int:
        """Say a command with an id of its own; the id."""
        self.number += 1
        told = self.post({"op": op, "id": self.number} | keys)
        assert told.status in (204, 404), told  # where it is closed, that is read
        return self.number

    def frame_over_http(self) -> Any:
        """The next frame as it is; raises Ended for the goodbye."""
        raise NotImplementedError

    def next(self) -> Any:
        """The next answer or message; raises Ended with the code of a goodbye."""
        value = self.frame_over_http()
        if isinstance(value, dict):
            for result in value.get("results", ()):
                if "sid" in result:
                    self.subjects[result["sid"]] = result["subject"]
        return value


class StreamSession(Session):
    """``GET /session/stream``."""

    def __init__(
        self,
        where: Sidecar | str,
        *,
        query: str = "",
        headers: str = "",
        receive_bytes: int = 0,
        poster: Callable[[], Caller] | None = None,
    ) -> None:
        super().__init__(where, poster)
        Socket.__init__(self, where if isinstance(where, str) else where.client_url, receive_bytes=receive_bytes)
        self.send(f"GET /session/stream{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            self.head += self.read(1)
        self.status = int(self.head.split(b" ")[1])
        if self.status == 200:
            name, self.terms = self.event()
            assert name == "session"

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        self.poster.connection.close()

    def event(self) -> tuple[str, Any]:
        """The next event: its name and its content; a comment has neither."""
        fields = dict(line.split(": ", 1) for line in self.read_to(b"\n\n").decode().split("\n") if line != ":")
        return fields.get("event", "message" if fields else ""), json.loads(fields.get("data", "null"))

    def frame_over_http(self) -> Any:
        """The next frame."""
        while not (event := self.event())[0]:
            pass
        name, content = event
        if name == "close":
            assert self.rest() == b""
            raise Ended(content["code"], content["reason"])
        assert name == "message", event
        return content


class ProxiedSession(Session):
    """A stream through a web server, which frames the answer as it likes."""

    def __init__(self, where: str, poster: Callable[[], Caller], **headers: str) -> None:
        super().__init__(where, poster)
        self.reader = poster()
        self.reader.connection.request("GET", "/session/stream", headers=headers)
        self.response = self.reader.connection.getresponse()
        assert self.response.status == 200
        name, self.terms = self.event()
        assert name == "session"

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self.reader.connection.close()
        self.poster.connection.close()

    def event(self) -> tuple[str, Any]:
        """The next event: its name and its content; a comment has neither."""
        fields: dict[str, str] = {}
        while line := self.response.readline().rstrip(b"\n"):
            name, _, text = line.decode().partition(": ")
            fields[name] = text
        return fields.get("event", "message" if "data" in fields else ""), json.loads(fields.get("data", "null"))

    def frame_over_http(self) -> Any:
        """The next frame."""
        while not (event := self.event())[0]:
            pass
        assert event[0] == "message", event
        return event[1]


class PollSession(Session):
    """``GET /session/poll``; ``ack`` is the number of answers that have arrived."""

    def __init__(
        self,
        where: Sidecar | str,
        *,
        query: str = "",
        receive_bytes: int = 0,
        poster: Callable[[], Caller] | None = None,
        opener: Caller | None = None,
        **headers: str,
    ) -> None:
        super().__init__(where, poster)
        del receive_bytes  # it has no socket
        self.poller = (poster or (lambda: Caller(where)))()
        self.ack = 0
        self.frames: deque[Any] = deque()
        self.first = (opener or self.poller).ask("GET", f"/session/poll{query}", **headers)
        if self.first.status == 200:
            self._take(self.first)
            self.terms = self.frames.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # nobody else would know that it has gone
            self.leave()
        self.poster.connection.close()
        self.poller.connection.close()

    @property
    def path(self) -> str:
        """What the next poll asks for."""
        return f"/session/poll?session={self.id}&ack={self.ack}"

    def poll(self) -> Posted:
        """Ask once; what comes can be read by ``next``."""
        told = self.poller.ask("GET", self.path)
        if told.status == 200:
            self._take(told)
        return told

    def _take(self, told: Posted) -> None:
        self.ack += 1
        self.frames.extend(json.loads(line) for line in told.body.splitlines())

    def frame_over_http(self) -> Any:
        """The next frame."""
        while not self.frames:
            told = self.poll()
            assert told.status == 200, told
        frame = self.frames.popleft()
        if isinstance(frame, dict) and "close" in frame:
            assert not self.frames
            raise Ended(frame["close"], frame["reason"])
        return frame


Kind = type[StreamSession | PollSession]

KINDS: dict[str, Kind] = {"stream": StreamSession, "poll": PollSession}


def client_of(where: Sidecar, form: str | None, *, receive_bytes: int = 0) -> WireClient:
    """A client of the WebSocket in this form, or of a session over HTTP of this kind."""
    kind = KINDS.get(form or "")
    return (
        WireClient(where, form, receive_bytes=receive_bytes)
        if kind is None
        else kind(where, receive_bytes=receive_bytes)
    )
