"""What the publisher port serves besides batches: begun when the engine has what it kept, ended before the engine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..edge.publishers.job_reports import Reporting
from ..edge.publishers.ranges import Reading
from ..edge.runtime.hub import Hub, now
from ..edge.transactions.admin import Transactions
from ..edge.transactions.commit import Committing
from ..edge.transactions.staging import Staging
from ..engine.journal.engine import JournalEngine
from ..engine.memory import MemoryEngine
from ..engine.staging.files import FileStaging
from ..engine.staging.memory import MemoryStaging
from ..engine.staging.store import StagingStore
from ..listen_address import SettingsError

if TYPE_CHECKING:
    from ..engine.redis.engine import RedisEngine

STAGED_FOLDER = "staged"
"""Below the journal's folder."""

_ends: list[Callable[[], Coroutine[Any, Any, None]]] = []


async def begin_requests(hub: Hub, engine: MemoryEngine | RedisEngine) -> None:
    """Serve them from now on; no port for publishers is open yet. Redis may be away still."""
    try:
        store = make_staging(hub, engine)
    except OSError as error:
        raise SettingsError(f"FASTPATH_DATA: {error.filename or ''}: {error.strerror or error}") from None
    staging = Staging(hub, store)
    committing = Committing(staging)
    Transactions(staging, committing)
    staging.start(committing.go_on)
    _ends[:] = [committing.close, staging.close]
    Reporting(hub)
    Reading(hub)


async def end_requests() -> None:
    """Begin nothing new and let go; what is under way goes on at the next start."""
    while _ends:
        await _ends.pop(0)()


def make_staging(hub: Hub, engine: MemoryEngine | RedisEngine) -> StagingStore:
    """Where rows are staged: they live as long as what the engine keeps. Raises OSError."""
    settings = hub.settings
    if isinstance(engine, JournalEngine):
        folder = Path(settings.data) / STAGED_FOLDER
        return FileStaging(folder, now, bytes_max=settings.staged_bytes, keep_seconds=settings.staged_seconds)
    if isinstance(engine, MemoryEngine):
        return MemoryStaging(now, bytes_max=settings.staged_bytes, keep_seconds=settings.staged_seconds)
    from ..engine.staging.redis import RedisStaging  # noqa: PLC0415 - it takes a tenth of a second and 5 MB

    return RedisStaging(engine, now, bytes_max=settings.staged_bytes, keep_seconds=settings.staged_seconds)
