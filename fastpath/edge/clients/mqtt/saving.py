"""What of the sessions of MQTT clients is written, and when: some of it ten times a second, as far as it has changed.

A session that is written once in a while costs the loop a hundredth of what each of its messages would. What a crash
takes of the last second is sent again: a position that is too old brings messages twice, and never none.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from time import perf_counter
from typing import Protocol

import msgspec

from ....core.mqtt.session import MqttSession
from ....core.mqtt.session_state import SessionState
from ....engine.base import SessionRow, SessionStore
from .connections import Key
from .wills import SavedWill

BATCH_BYTES = 256 << 10
"""About as much is written at a time, and ten times as much in a second; after more there is a pause."""

BATCH_SECONDS = 0.002
"""Seconds for which rows are made at a time, of what has changed and of a new base: two per cent of the loop each at
most."""

log = logging.getLogger("fastpath.clients")


class SavedSession(msgspec.Struct, omit_defaults=True):
    """A session in the store: ``whole``, or what has changed.

    ``revision`` rises with each row that is written: what is older than the copy of a session in a base is in it.
    ``ends`` is in ms, 0 while the client is connected, and so is ``will_at``: 0 for a will that waits for the end of
    the connection.
    """

    state: SessionState
    ends: int = 0
    will: SavedWill | None = None
    will_at: int = 0
    whole: bool = False
    revision: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SavedSession | int).decode
"""Decoder of what the store has; of a session that is over there is the revision alone."""


def restored(saved: SavedSession) -> MqttSession:
    """Return the session of a whole state."""
    state = saved.state
    session = MqttSession(state.name, state.level, state.expiry_seconds)
    session.adopt(state)
    session.change()
    return session


def whole_of(rows: list[bytes]) -> SavedSession | None:
    """Return the session of its rows, of which the first is the whole of it; None if there is none. Raise
    msgspec.DecodeError."""
    found: SavedSession | None = None
    for data in rows:
        row = _decode(data)
        if isinstance(row, int):
            found = None
        elif row.whole:
            found = row
        elif found is not None:
            found = msgspec.structs.replace(row, state=found.state.then(row.state), whole=True)
    return found


def encode_saved(saved: SavedSession) -> bytes:
    """Return a session that is whole, as a row."""
    return _encode(saved)


class Find(Protocol):
    """See Saving."""

    def __call__(self, key: Key, *, whole: bool, copies: bool) -> SavedSession | None: ...


class Saving:
    """``find`` makes what is to be written of a session, None when it is over. If it ``copies``, that is all of it, and
    what has changed is still to be written; else it is ``whole``, or what has changed since this was asked last."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._store: SessionStore | None = None
        self._dirty: OrderedDict[Key, None] = OrderedDict()  # what changed first comes first
        self._known: dict[Key, None] = {}  # those that the store has
        self._whole: set[Key] = set()  # of which the store may have missed something
        self._batch: list[Key] = []  # what is being written
        self._base: deque[Key] | None = None  # what is still to be written of a new base
        self._failed = False
        self._pauses = 0
        self._revision = 0

    @property
    def keeps(self) -> bool:
        """True if sessions outlast the process."""
        return self._store is not None

    def begin(self, store: SessionStore) -> dict[Key, SavedSession]:
        """Return the sessions that are in the store, where all changes are written from now on."""
        self._store = store
        found: dict[Key, SavedSession] = {}

        def read(owner: str, client_id: str, data: bytes) -> None:
            key, row = (owner, client_id), _decode(data)
            revision = row if isinstance(row, int) else row.revision
            self._revision = max(self._revision, revision)
            before = found.get(key)
            if before is not None and revision <= before.revision:
                return
            if isinstance(row, int):
                found.pop(key, None)
            elif row.whole:
                found[key] = row
            elif before is not None:
                found[key] = msgspec.structs.replace(row, state=before.state.then(row.state), whole=True)

        if not store.read(read):
            found = {}
        self._known = dict.fromkeys(found)
        return found

    def changed(self, key: Key) -> None:
        """Note that the session is not as it was."""
        if self._store is not None:
            self._dirty[key] = None

    def ended(self, key: Key) -> None:
        """Note that the session is over."""
        if key in self._known or (self._store is not None and self._store.knows(*key)):
            self._dirty[key] = None
        else:
            self._dirty.pop(key, None)  # the store need not hear of it

    def fleeting(self, key: Key) -> None:
        """Note that the session ends with its connection: nothing of it is to be there."""
        if key in self._known:
            self._dirty[key] = None
        else:
            self._dirty.pop(key, None)

    def forget(self, key: Key) -> None:
        """Say nothing more of the session: somebody else does."""
        self._dirty.pop(key, None)
        self._known.pop(key, None)
        self._whole.discard(key)

    def on_grid(self, moment: int) -> None:
        """Write the next of what has changed, and of a new base, if the disk has the last ones, ten times a second."""
        del moment
        store = self._store
        self._pauses -= 1
        if store is None or store.busy or self._pauses >= 0:
            return
        due = perf_counter() + BATCH_SECONDS
        rows: list[SessionRow] = []
        size = 0
        while self._dirty and size < BATCH_BYTES and (not rows or perf_counter() < due):
            key, _ = self._dirty.popitem(last=False)
            rows.append((*key, self.row(key)))
            size += len(rows[-1][2])
            self._batch.append(key)
        if self._base is None and store.wants_base and store.begin_base():
            self._base = deque(self._known)
        base: list[SessionRow] = []
        size = 0
        due = perf_counter() + BATCH_SECONDS
        while self._base and size < BATCH_BYTES and (not base or perf_counter() < due):
            key = self._base.popleft()
            data = self.copy(key)
            if data:
                base.append((*key, data))
                size += len(data)
        ends = self._base is not None and not self._base
        if ends:
            self._base = None
        self._pauses = sum(len(row[2]) for row in (*rows, *base)) // BATCH_BYTES
        if rows or base or ends:
            store.write(rows, base, ends_base=ends, done=self._written)

    def copy(self, key: Key) -> bytes:
        """Return the session as a base has it; empty when it is over."""
        saved = self._find(key, whole=True, copies=True)
        return _encode(msgspec.structs.replace(saved, revision=self._revision)) if saved is not None else b""

    def row(self, key: Key) -> bytes:
        """Return what the log is told of the session now."""
        saved = self._find(key, whole=key in self._whole, copies=False)
        self._revision += 1
        if saved is None:
            self._known.pop(key, None)
            return _encode(self._revision)
        self._known[key] = None
        return _encode(msgspec.structs.replace(saved, revision=self._revision))

    def _written(self, error: str) -> None:
        """Note that the batch is in the file, or is not, and what it said has to be said anew."""
        batch, self._batch = self._batch, []
        if error:
            if not self._failed:
                log.error("sessions of MQTT cannot be written: %s; what changes does not outlast this process", error)
            self._failed = True
            self._base = None
            self._whole.update(batch)
            self._dirty.update(dict.fromkeys(batch))
            self._known.update(dict.fromkeys(batch))
        elif batch:
            if self._failed:
                log.warning("sessions of MQTT can be written again")
            self._failed = False
            self._whole.difference_update(batch)

    def close(self) -> None:
        """Write all that has changed, as the process stops."""
        store, self._store = self._store, None
        if store is not None:
            store.close([(*key, self.row(key)) for key in self._dirty])

    def figures(self) -> dict[str, float]:
        """Return how many sessions the store has, how many of them are to be written, and its size."""
        store = self._store
        if store is None:
            return {}
        return {
            "mqtt_sessions_kept": len(self._known),
            "mqtt_sessions_unsaved": len(self._dirty) + len(self._batch),
            "mqtt_sessions_bytes": store.size_bytes,
        }
