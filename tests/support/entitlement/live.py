"""A running agent, and a signed-in WebSocket that notes what it is told."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from entitlement.following.agent import follow
from tests.support.waiting import PATIENCE_SECONDS


class RunningAgent:
    """``with RunningAgent(path):`` follows the test's database in a thread."""

    def __init__(self, control_path: str) -> None:
        self._stop = threading.Event()
        self._path = control_path
        self._thread = threading.Thread(target=self._run, name="agent")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        follow([self._path], self._stop)


class Viewer:
    """A client that subscribes and answers what it was told, oldest first."""

    def __init__(self, url: str, token: str = "") -> None:
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(url))
        self._ids = itertools.count(1)
        self._told: list[Any] = []
        self.server = str(self.ask("connect", **({"token": token} if token else {}))["server"])
        """Which worker it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for the answer with its id."""
        number = next(self._ids)
        self._socket.send(json.dumps({"op": op, "id": number} | arguments))
        return self.told(lambda frame: isinstance(frame, dict) and frame.get("id") == number)

    def subscribe(self, subject: str) -> str:
        """The subject's error, or an empty text."""
        [result] = self.ask("subscribe", subjects=[subject])["results"]
        return result.get("error", "")

    def told(self, wanted: Callable[[Any], bool], seconds: float = PATIENCE_SECONDS) -> Any:
        """The first frame that is wanted; AssertionError if none comes within so long."""
        end = time.monotonic() + seconds
        while True:
            for frame in self._told:
                if wanted(frame):
                    self._told.remove(frame)
                    return frame
            try:
                self._told.append(json.loads(self._socket.recv(timeout=max(0, end - time.monotonic()))))
            except TimeoutError:
                raise AssertionError(f"nothing of the kind, only {self._told}") from None

    def got(self, content: str) -> None:
        """Wait for the message with this content."""
        self.told(lambda frame: isinstance(frame, list) and frame[3] == content)

    def contents(self) -> list[str]:
        """Of the messages that have come and that nobody has asked for."""
        return [frame[3] for frame in self._told if isinstance(frame, list)]

    def started(self, subject: str) -> None:
        """Wait for the event that a waiting subscription has begun (protocol.md 4.2)."""
        self.told(
            lambda frame: (
                _op(frame) == "subscribed"
                and "id" not in frame
                and any(result["subject"] == subject and "sid" in result for result in frame["results"])
            )
        )

    def revoked(self, subject: str) -> str:
        """Wait for the event that a subscription has ended (protocol.md 4.7); its reason."""
        frame = self.told(lambda frame: _op(frame) == "revoked" and subject in frame["subjects"])
        return str(frame["reason"])

    def closed(self) -> int:
        """Wait for the server to close, and return its code."""
        with pytest.raises(ConnectionClosed) as caught:
            self.told(lambda _: False)
        return caught.value.rcvd.code if caught.value.rcvd else 1006


def _op(frame: Any) -> str | None:
    return frame.get("op") if isinstance(frame, dict) else None
