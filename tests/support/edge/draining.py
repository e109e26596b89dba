"""What is seen of a node that drains."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from tests.support.edge.wire import CLOSE, Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar

SUBJECT = "/drain/one"
OTHERS = [["ws://b.example.com/ws", 100], ["ws://c.example.com/ws", 5]]
SERVERS = "ws://b.example.com/ws, ws://c.example.com/ws 5"


class Seen:
    """What a client was sent until the server closed: the contents, the notice, and the code."""

    def __init__(self, client: WireClient) -> None:
        self.contents: list[int] = []
        self.positions: list[int] = []
        self.notice: dict[str, Any] | None = None
        try:
            while True:
                frame = client.next()
                if isinstance(frame, list):
                    self.positions.append(frame[1])
                    self.contents.append(int(frame[3]))
                elif frame["op"] == "notice":
                    self.notice = frame
        except Ended as end:
            self.code = end.code
        client.frame(CLOSE, b"")


def clients_of(sidecar: Sidecar, stack: ExitStack, count: int) -> list[WireClient]:
    """So many, each of which has subscribed."""
    clients = [stack.enter_context(WireClient(sidecar, ("json", "msgpack")[number % 2])) for number in range(count)]
    for client in clients:
        client.subscribe(SUBJECT)
    return clients


def accepts(sidecar: Sidecar) -> bool:
    """Whether clients and publishers get in."""
    try:
        with WireClient(sidecar), WirePublisher(sidecar):
            return True
    except (OSError, Ended):  # a listener that is closed resets who waited to be taken in
        return False
