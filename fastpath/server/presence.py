"""What one process takes part in with others: presence, interactive publishing, sessions, what it says to nodes."""

from __future__ import annotations

from ..edge.runtime.component import Component, SharedSessionsPart
from ..edge.runtime.runtime import Runtime
from ..edge.workers.presence import WorkerPresence, node_name
from ..edge.workers.presence_leader import NodePresence
from ..engine.base import Engine, PresenceChannel


class PresenceComponent:
    """A process' part; ``links`` is the path that the workers of a node share, empty for one that is alone."""

    def __init__(self, runtime: Runtime, engine: Engine, links: str = "", worker: int = 0, survivors: int = 0) -> None:
        node = node_name(links) if links else runtime.broker.server
        self._channel: PresenceChannel | None = None
        self._nodes = None if worker else runtime.nodes
        self._sessions: SharedSessionsPart | None = None
        shared = engine.share_sessions(runtime.end) if runtime.sharing is not None and not worker else None
        if shared is not None and runtime.sharing is not None:
            self._sessions = runtime.sharing.share(node, shared)
            runtime.nodes.serve(self._sessions)
        if self._nodes is not None:
            messenger = engine.messenger(node, self._nodes)
            if messenger is not None:
                self._nodes.join(node, messenger, learns=survivors > 0)
        view = None if worker else NodePresence(runtime, node, learns=survivors > 0)
        if view is not None:
            self._channel = engine.presence(node, view.hear)
            if self._channel is not None:
                self._channel.start()
                view.join(self._channel)
        self._attending = WorkerPresence(runtime, node, worker, view)
        self.components: list[Component] = [self._attending]
        if view is not None:
            self.components.insert(0, view)

    def start(self) -> None:
        """Take part from now on."""
        self._attending.start()

    async def end(self) -> None:
        """Say that the process ends, and leave Redis."""
        self._attending.stop()
        if self._sessions is not None:
            await self._sessions.finish()
        if self._nodes is not None:
            await self._nodes.leave()
        if self._channel is not None:
            await self._channel.close()
