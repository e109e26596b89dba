"""Messages that were not published and whose caller is told of no error: logged, and counted for /metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from fastpath.client.errors import ClientError
from realtime.publishing.rows import Row

SUBJECTS_SHOWN_MAX = 3
"""Number of subjects that are named of a transaction's messages that failed."""

_log = logging.getLogger("realtime.failures")


class Failures:
    """The failures of this process since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.total = 0

    def note(self, failed: Sequence[tuple[Row, ClientError]], of: int, when: str) -> None:
        """Count them and log one line, with the first error."""
        with self._lock:
            self.total += len(failed)
        subjects = ", ".join(row.subject for row, _ in failed[:SUBJECTS_SHOWN_MAX])
        more = ", …" if len(failed) > SUBJECTS_SHOWN_MAX else ""
        counts = f"{len(failed)} of {of} message{'s' if of > 1 else ''}"
        _log.error("%s not published %s (%s%s): %s", counts, when, subjects, more, failed[0][1])


failures = Failures()
