"""The wills of clients of MQTT whose connections are over: who left them, until they are published or void."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from ....core.auth.grants import Principal
from ....core.broker.observers import Source
from ....core.delivery.audience import Client
from ....core.mqtt.packets import Will
from ....core.mqtt.publications import publish_command
from ....core.mqtt.reasons import MqttError
from ....core.protocol.codec import MQTT5, Form
from ....core.protocol.errors import InvalidMessage, Refused
from ....core.sessions.publications import read_publication
from ....core.sessions.remembered import Remembered, recall, remember
from ...runtime.connection_names import Caller
from ...runtime.runtime import Runtime


class SavedWill(msgspec.Struct, omit_defaults=True):
    """A will as bytes say it: what is published, and in whose name."""

    topic: str
    payload: bytes
    who: Remembered
    qos: int = 0
    retain: bool = False
    properties: dict[str, Any] = {}
    address: str = ""
    publisher: str | None = None
    """The key by which a publication is known as a client's own."""


class LeftWill:
    """A will, and who left it; ``source`` is what the audit calls him."""

    __slots__ = ("_address", "_form", "_principal", "_publisher", "_source", "will")

    def __init__(
        self, will: Will, source: Source, principal: Principal, address: str, publisher: str | None, form: Form
    ) -> None:
        self.will = will
        self._source = source
        self._principal = principal
        self._address = address
        self._publisher = publisher
        self._form = form

    @classmethod
    def of(cls, client: Client, will: Will) -> Self:
        """Return the will of a client of this process."""
        return cls(will, client, client.principal, client.address, client.publisher, client.form)

    @classmethod
    def restored(cls, runtime: Runtime, saved: SavedWill) -> Self | None:
        """Return the will of a client of another process; None if who left it is nobody any more."""
        try:
            principal = recall(runtime.broker.grants, saved.who)
        except Refused:
            return None
        will = Will(
            topic=saved.topic, payload=saved.payload, qos=saved.qos, retain=saved.retain, properties=saved.properties
        )
        return cls(will, Caller(0, saved.address, principal), principal, saved.address, saved.publisher, MQTT5)

    @property
    def delay_seconds(self) -> int:
        """Seconds for which the will waits for its client to come back (5: 3.1.3.2.2)."""
        return int(self.will.properties.get("will_delay", 0))

    def saved(self, runtime: Runtime) -> SavedWill:
        """Return the will for another process."""
        will, who = self.will, remember(runtime.broker.grants, self._principal)
        return SavedWill(
            will.topic, will.payload, who, will.qos, will.retain, will.properties, self._address, self._publisher
        )

    def publish(self, runtime: Runtime) -> None:
        """Publish the will in a moment, under the rights that count then."""
        runtime.loop.call_soon(self._publish, runtime, max(runtime.broker.grid.moment, 1))

    def _publish(self, runtime: Runtime, moment: int) -> None:
        broker = runtime.broker
        try:
            principal = broker.grants.refreshed(self._principal)
            command = publish_command(self.will, 0, 0, moment)
            if not runtime.sessions.publications.accepts(self._address):
                raise InvalidMessage("denied", f"publishing is not allowed from {self._address}")
            message = read_publication(command, self._form)
        except Refused:
            return
        except MqttError:
            return  # it was looked at when the client came
        except InvalidMessage as error:
            broker.counters.refused(((error.code, error.reason),))
            if broker.trail is not None:
                broker.trail.unread(self._source, command.subject, error.code, error.reason)
            return
        message.publisher = self._publisher
        trail = broker.trail
        done = trail.publication(self._source, (message,), None) if trail is not None else None
        broker.publish(principal, (message,), moment, done)
        runtime.end()


encode_will = msgspec.msgpack.Encoder().encode
"""The bytes of a saved will."""

_decode = msgspec.msgpack.Decoder(SavedWill).decode


def decode_will(runtime: Runtime, data: bytes) -> LeftWill | None:
    """Return the will that these bytes are; None for none, or for one of somebody who is nobody any more."""
    return LeftWill.restored(runtime, _decode(data)) if data else None
