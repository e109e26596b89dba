"""A run's processes: nodes, watchers and publishers, started, brought to rest, and turned into a record."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.proxy import Proxy
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil

from .http_watchers import EventsWatcher, SessionWatcher
from .model import HISTORICAL, SNAPSHOT, Answered, Publication, Run, Seen
from .mqtt_watchers import MqttWatcher
from .pusher import Pusher
from .reader import Reader
from .watcher import Watcher, now_ms

SUBJECTS = [f"/chaos/s{number}" for number in range(20)]
WILDCARD = "/chaos/+"
"""All of them, to MQTT."""

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,mqtt://127.0.0.1:0"
CACHE_SECONDS = 5
REST_SECONDS = 40
"""Until every client has what was acknowledged, after the last publication."""

RATES = (("raw", 700), ("raw", 500), ("library", 500), ("socket", 200), ("mqtt", 100), ("mqtt-ws", 100))
"""The kind of each publisher (publishing.py), and its messages a second."""

EVENTS_SILENCE_SECONDS = 10.0
"""A reader of events cannot ask whether the server is there: it waits longer before it goes elsewhere."""

Client = Watcher | Reader | MqttWatcher


class Node:
    """One sidecar, with a proxy before its client port where a fault wants to cut there."""

    def __init__(self, proxied: bool = False, **settings: Any) -> None:
        self.sidecar = Sidecar(**{"listen": LISTEN} | settings)
        self.proxy: Proxy | None = None
        self.lives = 0
        """How often it was started."""
        self.up = False
        self._proxied = proxied

    async def start(self, **settings: Any) -> None:
        """Start the process, at the same addresses as before; ``settings`` count for this time only."""
        kept = self.sidecar.settings
        self.sidecar.settings = kept | settings
        self.lives += 1
        try:
            await asyncio.to_thread(self.sidecar.start)
        finally:
            listen = self.sidecar.settings["listen"]
            self.sidecar.settings = kept | {"listen": listen}
        self.up = True
        if self._proxied and self.proxy is None:
            self.proxy = Proxy(self.sidecar.ready["clients"][0])
            self.proxy.__enter__()

    async def kill(self) -> None:
        """The process dies at once."""
        self.up = False
        await asyncio.to_thread(self.sidecar.kill)

    async def stop(self) -> None:
        """The process stops cleanly."""
        self.up = False
        await asyncio.to_thread(self.sidecar.stop)

    async def died(self, seconds: float) -> None:
        """Wait until the process has ended by itself; AssertionError when it does not."""
        process = self.sidecar.process
        assert process is not None
        await auntil(lambda: process.poll() is not None, seconds)
        await self.kill()

    def close(self) -> None:
        """Leave nothing behind."""
        if self.proxy is not None:
            self.proxy.__exit__()
        self.sidecar.__exit__()

    @property
    def clients(self) -> str:
        """host:port for those who know no proxy."""
        return str(self.sidecar.ready["clients"][0])

    @property
    def publishers(self) -> str:
        """host:port."""
        return self.sidecar.publisher_url

    @property
    def mqtt(self) -> str:
        """host:port of the port of MQTT."""
        return str(self.sidecar.ready["mqtt"][0])

    @property
    def addresses(self) -> list[str]:
        """All of them."""
        return [self.clients, self.publishers, self.mqtt, *([self.proxy.address] if self.proxy else [])]


class Stage:
    """``async with Stage(nodes=1, journal="interval") as stage:``; other keywords are settings of the nodes.

    ``proxied``: some clients come through a proxy. ``steady``: whom nothing should disconnect, ``"reference"`` (the
    first client, which knows no proxy), ``"all"`` or nobody.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        proxied: bool = False,
        steady: str = "",
        rates: Sequence[tuple[str, int]] = RATES,
        journal: str = "",
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.folder = tempfile.TemporaryDirectory(prefix="fp-chaos-")
        self.settings: dict[str, Any] = {"cache_seconds": CACHE_SECONDS, "cache_messages": 100_000}
        self.settings |= settings
        self.nodes: list[Node] = []
        self.clients: list[Client] = []
        self.pushers: list[Pusher] = []
        self.injected_ms: list[int] = []
        self.run = Run(cache_ms=int(self.settings["cache_seconds"]) * 1000)
        for number in range(nodes):
            own: dict[str, Any] = {}
            if journal:
                data = Path(self.folder.name) / f"node{number}"
                data.mkdir()
                own = {"data": data, "journal": journal}
            self.nodes.append(Node(proxied, **self.settings, **own))
        self.figures: dict[str, Any] = {}
        """What a fault's judge measured besides."""
        self.on_close: list[Callable[[], None]] = []
        self._steady = steady
        self._rates = rates

    async def __aenter__(self) -> Stage:
        try:
            await self._open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for pusher in self.pushers:
            await pusher.kill()
        await asyncio.gather(*(client.stop() for client in self.clients))
        for node in self.nodes:
            await asyncio.to_thread(node.close)
        for close in self.on_close:
            close()
        self.folder.cleanup()

    async def _open(self) -> None:
        await asyncio.gather(*(node.start() for node in self.nodes))
        await self.gather_clients()
        for number, (kind, rate) in enumerate(self._rates):
            addresses = self._addresses(kind)
            at = number % len(addresses)
            self.pushers.append(Pusher(f"p{number}", kind, addresses[at:] + addresses[:at], SUBJECTS, rate))
        await asyncio.gather(*(pusher.start() for pusher in self.pushers))
        await self.healthy(20)

    def _addresses(self, kind: str) -> list[str]:
        """Where a kind of publishers goes."""
        match kind:
            case "socket" | "mqtt-ws":
                return self._far()
            case "mqtt":
                return [node.mqtt for node in self.nodes]
        return [node.publishers for node in self.nodes]

    async def gather_clients(self) -> None:
        """All who subscribe; nothing is published before they have."""
        self.clients = self._make_clients()
        for client in self.clients:
            client.start()
        await auntil(lambda: all(client.ready.is_set() for client in self.clients), 20)

    def _make_clients(self) -> list[Client]:
        near, far = self.near, self._far
        steady = self._steady == "all"
        return [
            Watcher("reference", near, SUBJECTS, steady=bool(self._steady), silence_seconds=20),
            SessionWatcher("session", far, SUBJECTS, steady=steady),
            EventsWatcher("events", far, SUBJECTS, steady=steady, silence_seconds=EVENTS_SILENCE_SECONDS, wander=True),
            Reader("library", far, SUBJECTS, steady=steady),
            Reader("library-json", near, SUBJECTS, form="json", steady=steady),
            MqttWatcher("mqtt", self._mqtt, [WILDCARD], self._session_at, steady=steady),
            MqttWatcher("mqtt-ws", far, SUBJECTS[::4], self._session_at, framed=True, steady=steady),
        ]

    def _session_at(self, address: str) -> str:
        """The name of the sessions there: with a journal they are the node's, else they end with its process."""
        for number, node in enumerate(self.nodes):
            if address in node.addresses:
                return f"node {number}" if "journal" in node.sidecar.settings else f"node {number}, life {node.lives}"
        raise ValueError(address)

    def _mqtt(self) -> list[str]:
        return [node.mqtt for node in self.nodes]

    def near(self) -> list[str]:
        """Where the clients' ports are."""
        return [node.clients for node in self.nodes]

    def _far(self) -> list[str]:
        return [node.proxy.address if node.proxy else node.clients for node in reversed(self.nodes)]

    # While the load runs

    async def healthy(self, seconds: float) -> None:
        """Wait until every publisher is acknowledged and every client reads; AssertionError after ``seconds``."""
        since = now_ms()

        def well() -> bool:
            return all(pusher.last_ack_ms > since for pusher in self.pushers) and all(
                client.connected and client.last_ms > since for client in self.clients
            )

        try:
            await auntil(well, seconds)
        except AssertionError:
            late = [pusher.name for pusher in self.pushers if pusher.last_ack_ms <= since]
            late += [client.trace.name for client in self.clients if client.last_ms <= since]
            raise AssertionError(
                f"not well again within {seconds:g} s: {', '.join(late)}{self.ends_of_logs()}"
            ) from None

    async def reading(self, seconds: float) -> None:
        """Wait until every client has got something; AssertionError after ``seconds``."""
        since = now_ms()
        await auntil(lambda: all(client.last_ms > since for client in self.clients), seconds)

    @staticmethod
    async def until(predicate: Callable[[], bool], seconds: float) -> None:
        """Wait until it holds; AssertionError after ``seconds``."""
        await auntil(predicate, seconds)

    def note_injection(self) -> None:
        """A fault is injected now."""
        self.injected_ms.append(now_ms())

    # The end

    async def finish(self) -> Run:
        """Stop the publishers, wait until every client has what was acknowledged, and make the record."""
        await self._stop_publishers()
        for pusher in self.pushers:
            for one in pusher.publications.values():
                self.run.publications[one.content] = one
        await self._rest()
        await self.read_end()
        for client in self.clients:
            await client.stop()
        self.run.traces = [client.trace for client in self.clients]
        return self.run

    async def _stop_publishers(self) -> None:
        """Those of MQTT first: their acknowledgements say no numbers, so that others have to be the last ones."""
        by_mqtt = [pusher for pusher in self.pushers if pusher.kind.startswith("mqtt")]
        others = [pusher for pusher in self.pushers if pusher not in by_mqtt]
        await asyncio.gather(*(pusher.stop() for pusher in by_mqtt))
        since = now_ms()

        def passed() -> bool:
            later = (one for pusher in others for one in pusher.publications.values() if one.sent_ms > since)
            return {one.subject for one in later if one.position is not None}.issuperset(SUBJECTS)

        try:
            if by_mqtt and others:
                await auntil(passed, REST_SECONDS)
        except AssertionError:
            pass  # the checker will tell what is not there
        await asyncio.gather(*(pusher.stop() for pusher in others))

    async def _rest(self) -> None:
        """What a client still lacks after that, the checker will tell."""
        heads: dict[str, Publication] = {}
        for one in self.run.publications.values():
            head = heads.get(one.subject)
            if one.position is not None and (head is None or head.position is None or head.position < one.position):
                heads[one.subject] = one

        def arrived() -> bool:
            return all(client.has(head) for client in self.clients for head in heads.values())

        try:
            await auntil(arrived, REST_SECONDS)
        except AssertionError:
            pass
        await asyncio.sleep(0.2)  # and what came after the last acknowledged one

    async def read_end(self) -> None:
        """Note what the node holds at the end."""
        for event in await self.read(history=1_000_000):
            if event.kind == HISTORICAL:
                self.run.final.setdefault(event.subject, []).append((event.seq, event.content))
        for event in await self.read():
            if event.kind == SNAPSHOT:
                self.run.snapshots[event.subject] = event.seq, event.content

    async def read(self, history: int = 0) -> list[Seen]:
        """What a new client is sent first; AssertionError when that does not come. Subjects are left out of which the
        cache let go while it was sent."""
        client = Watcher("new", self.near, SUBJECTS, history=history)
        client.start()
        try:
            await auntil(lambda: _whole(client), 20)
        finally:
            await client.stop()
        events = client.trace.events
        cut = {event.subject for event in events if isinstance(event, Answered) and event.recovery}
        return [event for event in events if isinstance(event, Seen) and event.subject not in cut]

    def pauses_ms(self) -> list[int]:
        """For each injection the longest time without any acknowledgement that followed it."""
        acks = sorted(at for pusher in self.pushers for at in pusher.acks_ms)
        pauses = []
        for begin, end in zip(self.injected_ms, [*self.injected_ms[1:], 1 << 62], strict=True):
            times = [begin, *(at for at in acks if begin <= at < end)]
            pauses.append(max((after - at for at, after in pairwise(times)), default=0))
        return pauses

    def logs(self) -> dict[str, str]:
        """What the processes wrote, by name."""
        return {f"node-{number}": node.sidecar.log for number, node in enumerate(self.nodes)}

    def ends_of_logs(self) -> str:
        """The same, as far as it fits into what is shown of a failure."""
        return "".join(f"\n--- {name}:\n{text[-1500:]}" for name, text in self.logs().items())


def _whole(client: Watcher) -> bool:
    """Whether it got all that its answers promised to come first."""
    promised = {event.subject: event.messages for event in client.trace.events if isinstance(event, Answered)}
    came = dict.fromkeys(promised, 0)
    for event in client.trace.events:
        if isinstance(event, Seen) and event.kind in (HISTORICAL, SNAPSHOT):
            came[event.subject] += 1
    return len(promised) == len(SUBJECTS) and all(came[subject] >= count for subject, count in promised.items())
