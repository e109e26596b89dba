"""The options of subjects beside a journal: how much of it is to be cached again is known before Django says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...core.protocol.options import OptionRow, check_option_pattern

NAME = "options.json"
"""Name of the file in the journal's folder."""

log = logging.getLogger("fastpath.journal")


class OptionsFile:
    """The options that counted last, in the folder of a journal."""

    def __init__(self, folder: Path, partial: str) -> None:
        """Name the file; one whose name ends in ``partial`` was never finished, and nobody reads it."""
        self._path = folder / NAME
        self._partial = folder / (NAME + partial)

    def read(self) -> list[OptionRow]:
        """Return the options; none where there is no such file, or where it cannot be read: Django says them soon."""
        try:
            rows = msgspec.json.decode(self._path.read_bytes(), type=list[OptionRow])
            for row in rows:
                check_option_pattern(row.pattern)
            return rows
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, ValueError) as error:  # the last: bytes or a pattern that are none
            log.warning("%s cannot be read, the settings count until the options have come: %s", self._path, error)
            return []

    def write(self, rows: Sequence[OptionRow]) -> None:
        """Write the options, which count from now on. What cannot be written is said in the log, and counts all the
        same."""
        try:
            self._partial.write_bytes(msgspec.json.encode(list(rows)))
            self._partial.replace(self._path)
        except OSError as error:
            log.error("%s cannot be written: after a restart older options count at first: %s", self._path, error)
