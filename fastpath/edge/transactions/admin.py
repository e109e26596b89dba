"""The control verbs ``transactions`` and ``forget_transaction``: what is remembered of committed batches
(protocol.md 8.16)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...core.protocol.errors import InvalidMessage
from ...core.protocol.packets import publisher_key, publisher_of
from ...core.transactions.records import StagingFailed, StagingRecord
from ..runtime.component import ControlPeer, Offers
from ..runtime.scatter import chosen, text
from .commit import Commits
from .staging import Staging

LIMIT_DEFAULT, LIMIT_MAX = 50, 1000
"""Transactions in an answer."""

FORGETTING_MAX = 16
"""Verbs that may wait for the store at a time."""


class Transactions:
    """Tells of them, and has one forgotten."""

    def __init__(self, staging: Staging, commits: Commits) -> None:
        self._store = staging.store
        self._commits = commits
        self._tasks: set[asyncio.Task[None]] = set()
        self.offers = Offers(verbs={"transactions": self._tell, "forget_transaction": self._forget})

    def _tell(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Answer later, with at most ``limit`` transactions."""
        limit = chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_DEFAULT)

        async def tell() -> dict[str, Any]:
            return {"transactions": [self._row(key, record) for key, record in await self._store.records(limit)]}

        self._answer(peer, tell)

    def _forget(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Forget ``transaction`` of ``user``; answer later."""
        user, transaction = text(arguments, "user"), text(arguments, "transaction")
        key = publisher_key(user, transaction)

        async def forget() -> dict[str, Any]:
            if self._commits.running(key):  # asked here: a commit may have come since the verb
                raise StagingFailed("limit", "a batch of it is being committed; ask again")
            return {"forgotten": await self._store.forget(key)}

        self._answer(peer, forget)

    def _answer(self, peer: ControlPeer, work: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        number = peer.request
        if len(self._tasks) >= FORGETTING_MAX:
            raise InvalidMessage("limit", f"{FORGETTING_MAX} such questions are open; ask again")

        async def answer() -> None:
            try:
                peer.reply(number, await work())
            except StagingFailed as error:
                peer.refuse(number, error.code, error.reason)

        task = asyncio.ensure_future(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _row(self, key: str, record: StagingRecord) -> dict[str, Any]:
        user, transaction = publisher_of(key)
        return {
            "user": user,
            "transaction": transaction,
            "batch": record.batch,
            "state": "running" if self._commits.running(key) else record.state,
            "rows": record.rows,
            "rows_before": record.base,
            "refused_rows": record.refused_rows,
            "outdated": record.outdated,
            "time": record.time,
        }
