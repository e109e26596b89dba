"""What a sidecar's audit has written down so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.waiting import until


class Written:
    """The events in a folder; ``find`` waits for one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def text(self) -> str:
        """All files, one after the other."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("audit-*.jsonl")))

    def all(self, **wanted: Any) -> list[dict[str, Any]]:
        """All events with these values, in the order of the files; a line counts when it is whole."""
        events = [json.loads(line) for line in self.text.splitlines(keepends=True) if line.endswith("\n")]
        return [event for event in events if wanted.items() <= event.items()]

    def find(self, **wanted: Any) -> dict[str, Any]:
        """The newest event with these values, as soon as there is one."""
        return until(lambda: self.all(**wanted))[-1]
