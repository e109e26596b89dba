"""Several nodes' channel layers in one process: real verbs, and a way between them whose every step the test takes."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

from fastpath.core.protocol.errors import InvalidMessage
from fastpath.edge.channel_layer.verbs import ChannelVerbs
from fastpath.edge.node.messenger import OtherNodes

Lost = Callable[[bool], None] | None


class Peer:
    """A connection of a process to the control socket of a node."""

    principal = None

    def __init__(self, node: Node, process: str) -> None:
        self.request = 0
        self.ended: list[Callable[[], None]] = []
        self.answers: dict[int, Any] = {}
        """By request: what was answered, a text for a refusal."""
        self.pushed: list[tuple[str, Any]] = []
        self._node = node
        self.ask("channel_open", process=process)

    def reply(self, number: int, answer: Any) -> None:
        """ControlPeer."""
        assert number not in self.answers, "a request is answered once"
        self.answers[number] = answer

    def refuse(self, number: int, code: str, reason: str) -> None:
        """ControlPeer."""
        del reason
        self.reply(number, code)

    def push(self, name: str, content: Any) -> int:
        """ControlPeer."""
        self.pushed.append((name, content))
        return 0

    def waiting(self) -> int:
        """ControlPeer."""
        return 0

    def ask(self, verb: str, **arguments: Any) -> int:
        """Ask for a verb; the number of the request."""
        self.request += 1
        number = self.request
        try:
            answer = self._node.verbs.offers.verbs[verb](self, arguments)
        except InvalidMessage as error:
            self.refuse(number, error.code, error.reason)
        else:
            if answer is not None:
                self.reply(number, answer)
        return number

    def send(self, channel: str, message: bytes, capacity: int = 100, seconds: float = 60) -> int:
        """Send to a channel."""
        return self.ask("channel_send", channel=channel, message=message, capacity=capacity, seconds=seconds)

    def receive(self, channel: str) -> int:
        """Wait for a message."""
        return self.ask("channel_receive", channel=channel)

    def add(self, group: str, *channels: str, capacity: int = 100) -> int:
        """Put channels into a group."""
        return self.ask("channel_group_add", memberships=[[group, channel, capacity, 600] for channel in channels])

    def discard(self, group: str, channel: str) -> int:
        """Take a channel out of a group."""
        return self.ask("channel_group_discard", group=group, channel=channel)

    def group_send(self, group: str, message: bytes, seconds: float = 60) -> int:
        """Send to a group."""
        return self.ask("channel_group_send", group=group, message=message, seconds=seconds)

    def flush(self) -> int:
        """Empty all."""
        return self.ask("channel_flush", prefix="")

    def close(self) -> None:
        """End the connection."""
        for ended in self.ended:
            ended()

    def got(self, *numbers: int) -> list[Any]:
        """The messages, or else the answers, of these requests; None where there is none yet."""
        answers = [self.answers.get(number) for number in numbers]
        return [one["message"] if isinstance(one, dict) and "message" in one else one for one in answers]


class Node:
    """A node with its layer, which is its own messenger."""

    def __init__(self, net: Net, name: str) -> None:
        self.name = name
        self.up = False
        self.full = False
        """Whether nothing more is taken, as too much waits to be sent."""
        self._net = net
        runtime: Any = SimpleNamespace(
            loop=net,
            awake=SimpleNamespace(time=0.0),
            broker=SimpleNamespace(server=f"{name}-{next(net.numbers)}"),
            settings=SimpleNamespace(message_bytes_max=1 << 20),
        )
        self.awake = runtime.awake
        self.verbs = ChannelVerbs(runtime)
        self.way = OtherNodes(runtime.loop, lambda: None)
        assert self.verbs.offers.nodes is not None
        self.way.serve(self.verbs.offers.nodes)
        self.way.join(name, self, learns=False)

    def start(self) -> None:
        """Messenger."""

    async def close(self) -> None:
        """Messenger."""

    def send(self, node: str, data: bytes, lost: Lost = None) -> None:
        """Messenger."""
        if not self.up or (self.full and len(data) > 1000):
            if lost is not None:
                lost(False)
        else:
            self._net.sent.append((self, node, data, lost))

    def connect(self) -> None:
        """The way to the others is there."""
        self.up = True
        self.way.up(sum(node.up for node in self._net.nodes.values()))

    def cut(self, maybe: bool = False) -> None:
        """The way breaks: what was not delivered is lost, and ``maybe`` told so."""
        self.up = False
        kept: deque[Any] = deque()
        for one in self._net.sent:
            if one[0] is not self:
                kept.append(one)
            elif one[3] is not None:
                one[3](maybe)
        self._net.sent = kept
        self.way.down()

    def figures(self) -> dict[str, float]:
        """All of the layer's figures."""
        assert self.verbs.offers.figures is not None
        return self.verbs.offers.figures()


class Net:
    """The nodes, what is on its way between them, and their loop, whose time goes by when the test says so."""

    def __init__(self, *names: str) -> None:
        self.sent: deque[tuple[Node, str, bytes, Lost]] = deque()
        self.nodes: dict[str, Node] = {}
        self.numbers = count()
        self._now = 1000.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        for name in names:
            self.begin(name)
        self.settle()

    def begin(self, name: str) -> Node:
        """A node comes."""
        node = self.nodes[name] = Node(self, name)
        node.connect()
        return node

    def kill(self, name: str) -> None:
        """A node dies, with what it has not sent yet."""
        node = self.nodes.pop(name)
        node.up = False
        self.sent = deque(one for one in self.sent if one[0] is not node)

    # As a loop

    def time(self) -> float:
        """Loop."""
        return self._now

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> None:
        """Loop."""
        heapq.heappush(self._due, (self._now + seconds, next(self.numbers), lambda: call(*arguments)))

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Loop."""
        self.call_later(0, call, *arguments)

    # What happens

    def deliver_one(self) -> None:
        """The next message arrives, or is told to be lost."""
        if not self.sent:
            return
        source, to, data, lost = self.sent.popleft()
        heard = False
        for node in list(self.nodes.values()):
            if node.up and node is not source and to in ("", node.name):
                heard = True
                node.way.hear(source.name, data)
        if to and not heard:
            if lost is not None:
                lost(False)
            source.way.missing(to)

    def do_due(self) -> None:
        """What is due in the loop happens."""
        while self._due and self._due[0][0] <= self._now:
            heapq.heappop(self._due)[2]()

    def run(self) -> None:
        """All arrives that is on its way, and all happens that is due."""
        while self.sent or (self._due and self._due[0][0] <= self._now):
            self.do_due()
            if self.sent:
                self.deliver_one()

    def settle(self, seconds: float = 0.5, moment: int = 0, *, run: bool = True) -> None:
        """Time goes by, and the clocks of the nodes tick.

        With a moment, in ms since 1970, it is told to them first; not ``run``: what they send stays on its way.
        """
        for node in list(self.nodes.values()) if moment else ():
            node.verbs.offers.on_second(moment)  # type: ignore[misc]
        for step in range(1, round(seconds * 100) + 1):
            self._now += 0.01
            if step % 10 == 0:
                for node in list(self.nodes.values()):
                    node.awake.time += 0.1
                    node.verbs.offers.on_grid(0)  # type: ignore[misc]
                    if step % 100 == 0:
                        node.verbs.offers.on_second(0)  # type: ignore[misc]
            if run:
                self.run()
            else:
                self.do_due()
