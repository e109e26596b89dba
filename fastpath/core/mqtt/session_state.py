"""A client's session as bytes: what another worker, or a process that comes later, goes on from.

A state is whole, or what has changed since the one before it. Messages are not in it: of what is under way it has the
place in the log, from where it is read again.
"""

from __future__ import annotations

import msgspec


class SavedFilter(msgspec.Struct, array_like=True, gc=False):
    """A subscription: its filter with the options, its identifier, and whether it wants what is retained."""

    text: str
    qos: int
    no_local: bool
    as_published: bool
    handling: int
    identifier: int
    wants: bool


class UnderWay(msgspec.Struct, array_like=True, gc=False):
    """A message that the client has not acknowledged: under which packet id it was sent, its place, the filters of the
    groups from which the client has taken it, and whether the retain flag told what it stands for."""

    packet_id: int
    subject: str
    epoch: int
    seq: int
    groups: list[str] = []
    retained: bool = False


class SessionState(msgspec.Struct, omit_defaults=True):
    """A session (core/mqtt/session.py); what is None, or not in a dict, is as it was before.

    ``positions`` are those that were reached since, ``numbers`` those of publications since, and ``digests`` of what
    these say, which earlier versions do not have; the rest is whole.
    """

    name: str
    level: int
    expiry_seconds: int
    published: int = 0
    packet_id: int = 0
    filters: list[SavedFilter] | None = None
    positions: dict[str, tuple[int, int]] = {}
    under_way: list[UnderWay] | None = None
    received: dict[int, bool] | None = None
    numbers: dict[int, int] = {}
    digests: dict[int, int] = {}

    def then(self, change: SessionState) -> SessionState:
        """Return the state after a change; this one is of no use any more."""
        self.positions.update(change.positions)
        numbers, digests = (self.numbers, self.digests) if change.name == self.name else ({}, {})
        for packet_id, number in change.numbers.items():
            numbers.pop(packet_id, None)  # what was numbered last comes last
            numbers[packet_id] = number
            digests.pop(packet_id, None)
        digests.update(change.digests)
        return msgspec.structs.replace(
            change,
            filters=self.filters if change.filters is None else change.filters,
            positions=self.positions,
            under_way=self.under_way if change.under_way is None else change.under_way,
            received=self.received if change.received is None else change.received,
            numbers=numbers,
            digests=digests,
        )


encode_state = msgspec.msgpack.Encoder().encode
"""The bytes of a state."""

_decode = msgspec.msgpack.Decoder(SessionState).decode


def decode_state(data: bytes) -> SessionState:
    """Return the state that these bytes are; raise msgspec.DecodeError."""
    return _decode(data)
