"""The file of the keys that tokens are signed with (RFC 7517): read at the start, and again whenever it has changed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ...core.auth.keys import Key, read_key_set
from ...core.protocol.errors import InvalidKeys
from ..runtime.component import Offers
from ..runtime.runtime import Runtime

KEY_FILE_BYTES_MAX = 1 << 20

log = logging.getLogger("fastpath.keys")

_Stamp = tuple[int, int, int] | None


def read_key_file(path: str) -> list[Key]:
    """Return the keys in the file; raise InvalidKeys, or OSError with what the file system says."""
    data = Path(path).read_bytes()
    if len(data) > KEY_FILE_BYTES_MAX:
        raise InvalidKeys(f"it has over {KEY_FILE_BYTES_MAX} bytes")
    found, notes = read_key_set(data)
    for note in notes:
        log.warning("%s: %s", path, note)
    return found


def take_keys(runtime: Runtime, source: str, found: list[Key]) -> None:
    """Let these keys count from now on, and end what keys have signed that do not count any more."""
    rights, keys = runtime.sessions.rights, runtime.broker.grants.keys
    assert keys is not None
    log.info("%s: keys %s", source, ", ".join(f"{key.kid or 'without kid'} ({key.algorithm})" for key in found))
    if keys.replace(found):
        rights.keys_changed()
        runtime.follow_rights()
        runtime.follow_publishers()


class KeyFile:
    """Follows the file for one process; a broken one leaves the keys as they are, and is logged once."""

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._seen = self._stamp()
        self.offers = Offers(reloads={"FASTPATH_TOKEN_KEYS": self.reload}, on_second=self.look)

    def look(self, moment: int) -> None:
        """Take the file's keys, called each second, if the file is another than before."""
        del moment
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            self.reload()
        except (OSError, InvalidKeys) as error:
            log.error("%s is left as it was read before: %s", self._path, error)

    def reload(self) -> None:
        """Take the file's keys now; raises InvalidKeys or OSError, and leaves them as they are."""
        self._seen = self._stamp()
        take_keys(self._runtime, self._path, read_key_file(self._path))

    def _stamp(self) -> _Stamp:
        """Return what tells one state of the file from another; None: there is no file."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
