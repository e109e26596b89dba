"""A peer that speaks plain HTTP to a client port, with nothing but a socket, so that it can break it on purpose."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from tests.support.edge.wire import Socket
from tests.support.sidecar import Sidecar


class Response(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, or as MessagePack where it is that."""
        if self.headers["content-type"] == "application/msgpack":
            return msgspec.msgpack.decode(self.body)
        return json.loads(self.body)


def call_bytes(method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
    """A request; in the names of headers an underscore is a hyphen."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
        headers = {"Content_Type": "application/json"} | headers
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class HttpPeer(Socket):
    """A connection to a client port that asks and reads answers."""

    def __init__(self, where: Sidecar | str, **keys: Any) -> None:
        super().__init__(where if isinstance(where, str) else where.client_url, **keys)

    def response(self, *, bodiless: bool = False) -> Response:
        """The next answer; Ended when the connection ends."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.read(1)
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = 0 if bodiless else int(headers.get("content-length", 0))
        return Response(int(first.split(" ")[1]), headers, self.read(length))

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Response:
        """Ask, and read the answer."""
        self.send(call_bytes(method, path, body, **headers))
        return self.response(bodiless=method == "HEAD")

    def publish(self, messages: Any, **headers: str) -> list[dict[str, Any]]:
        """The results of publications."""
        answer = self.ask("POST", "/api/publish", json.dumps(messages).encode(), **headers)
        assert answer.status == 200, answer
        return list(answer.json["results"])

    def history(self, **query: Any) -> list[dict[str, Any]]:
        """What is told of subjects."""
        answer = self.ask("GET", f"/api/history?{urlencode(query, doseq=True)}")
        assert answer.status == 200, answer
        return list(answer.json["subjects"])

    @property
    def ended(self) -> bool:
        """Whether the connection ends without a word."""
        return self.rest() == b""
