"""Sidecars with a channel layer over them: one alone, or two nodes, of which one sends what the other one receives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastpath.client.control.client import Control
from realtime.layers import FastpathChannelLayer, Message
from tests.support.redis_servers import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

ONE, TWO = "one node", "two nodes"


class LayerOverNodes(FastpathChannelLayer):
    """Receives at one node; whatever else is asked goes to the other, and channels into groups at both in turn."""

    def __init__(self, near: str, far: str, **config: Any) -> None:
        super().__init__(control=near, **config)
        self._far = FastpathChannelLayer(control=far, **config)
        self._near_next = False

    async def send(self, channel: str, message: Message) -> None:
        """Send at the other node."""
        await self._far.send(channel, message)

    async def group_send(self, group: str, message: Message) -> None:
        """Send at the other node."""
        await self._far.group_send(group, message)

    async def group_add(self, group: str, channel: str) -> None:
        """Put it into the group at either node."""
        self._near_next = not self._near_next
        await (super() if self._near_next else self._far).group_add(group, channel)

    async def group_discard(self, group: str, channel: str) -> None:
        """Take it out at the other node."""
        await self._far.group_discard(group, channel)

    async def flush(self) -> None:
        """Flush at the other node."""
        await self._far.flush()


class Site:
    """The sidecars of a site."""

    def __init__(self, *sidecars: Sidecar) -> None:
        self.sidecars = sidecars
        self.control = sidecars[0].control

    def layer(self, **config: Any) -> FastpathChannelLayer:
        """Return a layer of a process."""
        if len(self.sidecars) == 1:
            return FastpathChannelLayer(control=self.control, **config)
        return LayerOverNodes(*(sidecar.control for sidecar in self.sidecars), **config)

    def figure(self, name: str) -> float:
        """Return a figure, of all nodes together."""
        return sum(figure(sidecar, name) for sidecar in self.sidecars)

    def meet(self) -> None:
        """Wait until each node knows the channels of all others."""
        for sidecar in self.sidecars:
            until(lambda sidecar=sidecar: figure(sidecar, "channel_nodes") == len(self.sidecars) - 1)  # type: ignore[misc]


def figure(sidecar: Sidecar, name: str) -> float:
    """Return a figure of one node."""
    with Control(sidecar.control) as control:
        return float(control.stats()[name])


@contextmanager
def site(which: str) -> Iterator[Site]:
    """One sidecar alone, or two nodes on a Redis."""
    if which == ONE:
        with Sidecar() as sidecar:
            yield Site(sidecar)
        return
    with RedisServer() as redis, Sidecar(engine=redis.url) as near, Sidecar(engine=redis.url) as far:
        found = Site(near, far)
        found.meet()
        yield found
