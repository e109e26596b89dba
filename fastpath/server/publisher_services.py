"""What the publisher port serves besides batches: begun when the engine has what it kept, ended before the engine."""

from __future__ import annotations

from ..edge.publishers.job_reports import JobReports
from ..edge.publishers.ranges import Ranges
from ..edge.runtime.runtime import Runtime, now
from ..edge.transactions.admin import Transactions
from ..edge.transactions.commit import Commits
from ..edge.transactions.staging import Staging
from ..engine.base import Engine
from ..engine.staging.store import StagingStore
from ..listen_address import SettingsError


class PublisherServices:
    """The services of the publisher port, from now on; no such port is open yet, and Redis may be away still.

    Raises SettingsError.
    """

    def __init__(self, runtime: Runtime, engine: Engine) -> None:
        try:
            store = make_staging(runtime, engine)
        except OSError as error:
            raise SettingsError(f"FASTPATH_DATA: {error.filename or ''}: {error.strerror or error}") from None
        self._staging = Staging(runtime, store)
        self._commits = Commits(self._staging)
        transactions = Transactions(self._staging, self._commits)
        self._staging.start(self._commits.go_on)
        runtime.serve(self._staging, self._commits, transactions, JobReports(runtime), Ranges(runtime))

    async def end(self) -> None:
        """Begin nothing new and let go; what is under way goes on at the next start."""
        await self._commits.close()
        await self._staging.close()


def make_staging(runtime: Runtime, engine: Engine) -> StagingStore:
    """Make the store of staged rows, which live as long as what the engine keeps; raises OSError."""
    settings = runtime.settings
    return engine.open_staging(now, bytes_max=settings.staged_bytes, keep_seconds=settings.staged_seconds)
