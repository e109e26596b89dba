"""The wire of MQTT: records, of which their connection makes packets (core/mqtt/outgoing.py); not compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..delivery.wire import Wire
from ..mqtt import records
from ..mqtt.publications import as_retained
from ..protocol.codec import encode

if TYPE_CHECKING:
    from ..protocol.messages import AnyAnswer, Message


class RecordFrames(Wire):
    """Records for a client of MQTT, which has a keep alive, and reads neither numbers nor times."""

    __slots__ = ()

    transport = "mqtt"
    pings = False
    dated = False
    numbered = False
    acknowledges = True
    payload = staticmethod(records.encode_record)

    def message(self, payload: bytes) -> bytes:
        return payload

    def event(self, value: AnyAnswer) -> bytes:
        return records.encode_answer(encode(value, self.form))

    def close(self, code: int, reason: str) -> bytes:
        return records.encode_goodbye(code, reason)

    def split(self, chunk: bytes) -> list[tuple[bytes, int]]:
        return [(record, records.sid_of_record(record)) for record in records.split_records(chunk)]

    def retained(self, found: Message, newest: Message) -> Message | None:
        return as_retained(found, newest)

    def gap(self, subject: str, sid: int, epoch: int, seq: int, *, live: bool) -> bytes:
        return records.encode_gap(subject, sid, epoch, seq, live=live)
