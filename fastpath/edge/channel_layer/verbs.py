"""The verbs ``channel_…`` of the control socket: Django Channels' channels and groups (protocol.md 8.22)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

from ...core.channel_layer.channels import CHANNEL_NAME_CHARS_MAX, FULL, Channels, Deliver
from ...core.channel_layer.groups import Groups, process_of
from ...core.protocol.errors import InvalidMessage
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import Scheduler

MEMBERSHIPS_PER_REQUEST_MAX = 1000
"""Bounds the work of one turn."""

PROCESS_CHARS_MAX = 64
"""The name under which a process receives."""

CAPACITY_MAX = 1_000_000
"""Messages in one channel."""

SECONDS_MAX = 10 * 365 * 86_400
"""Seconds that a message may wait, or a channel be in a group."""

STEP_CHANNELS = 50
"""Channels of a group that are sent to without a look at the clock."""

CANCELLED = "cancelled"

Arguments = dict[str, Any]


class ChannelVerbs:
    """All channels and groups of the node, on its first worker, and the connections that use them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._channels = Channels()
        self._groups = Groups()
        self._connections: dict[ControlPeer, _Connection] = {}
        self._turns = Scheduler(runtime.loop)
        self._processes: dict[str, dict[ControlPeer, None]] = {}
        self.offers = Offers(
            verbs={
                "channel_open": self._open,
                "channel_send": self._send,
                "channel_receive": self._receive,
                "channel_cancel": self._cancel,
                "channel_return": self._return,
                "channel_group_add": self._group_add,
                "channel_group_discard": self._group_discard,
                "channel_group_send": self._group_send,
                "channel_flush": self._flush,
            },
            figures=self._figures,
            on_second=self._sweep,
        )

    def _open(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        process = _text(arguments, "process", PROCESS_CHARS_MAX)
        connection = self._connection(peer)
        if connection.process not in ("", process):
            raise InvalidMessage("invalid", "a connection is one process'")
        connection.process = process
        self._processes.setdefault(process, {})[peer] = None
        self._groups.came(process)
        return {"server": self._runtime.broker.server}

    def _send(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        del peer
        channel, message = _name(arguments, "channel"), self._message(arguments)
        capacity, moment = _whole(arguments, "capacity", CAPACITY_MAX), now()
        if not self._channels.send(channel, message, capacity, moment + _ms(arguments), moment):
            raise InvalidMessage(FULL, f"the channel holds {capacity} messages, or all channels together too much")
        return {}

    def _receive(self, peer: ControlPeer, arguments: Arguments) -> None:
        channel, number = _name(arguments, "channel"), peer.request
        receivers = self._connection(peer).receivers
        if number in receivers:
            raise InvalidMessage("invalid", f"request {number} is a receiver that waits: number requests upwards")

        def deliver(message: bytes, until: int) -> None:
            receivers.pop(number, None)
            peer.reply(number, {"message": message, "until": until})

        receivers[number] = channel, deliver
        try:
            self._channels.receive(channel, deliver, now())
        except InvalidMessage:
            del receivers[number]
            raise

    def _cancel(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        number = _whole(arguments, "request", 1 << 53)
        found = self._connection(peer).receivers.pop(number, None)
        if found is not None and self._channels.cancel(*found):
            peer.refuse(number, CANCELLED, "the receiver waits no more")
        return {}

    def _return(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        del peer
        until, moment = arguments["until"], now()
        if type(until) is not int:
            raise InvalidMessage("invalid", "until is the whole number that came with the message")
        until = min(until, moment + SECONDS_MAX * 1000)
        self._channels.give_back(_name(arguments, "channel"), self._message(arguments), until, moment)
        return {}

    def _group_add(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        del peer
        given, moment = arguments["memberships"], now()
        if not isinstance(given, list) or len(given) > MEMBERSHIPS_PER_REQUEST_MAX:
            raise InvalidMessage("invalid", f"memberships is a list of at most {MEMBERSHIPS_PER_REQUEST_MAX}")
        for row in given:
            if not isinstance(row, list) or len(row) != 4:
                raise InvalidMessage("invalid", "a membership is [group, channel, capacity, seconds]")
            membership = dict(zip(("group", "channel", "capacity", "seconds"), row, strict=True))
            group, channel = _name(membership, "group"), _name(membership, "channel")
            self._groups.add(group, channel, _whole(membership, "capacity", CAPACITY_MAX), moment + _ms(membership))
        return {}

    def _group_discard(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        group, channel = _name(arguments, "group"), _name(arguments, "channel")
        if self._groups.discard(group, channel):
            self._tell_others(peer, process_of(channel), "channel_discarded", {"group": group, "channel": channel})
        return {}

    def _group_send(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        group, message, moment = _name(arguments, "group"), self._message(arguments), now()
        until, members = moment + _ms(arguments), self._groups.members(group, moment)
        steps = self._send_each(members, message, until)
        if len(members) <= STEP_CHANNELS:
            return _last(steps)
        number = peer.request
        self._turns.run(
            steps,
            lambda told: peer.reply(number, told),
            lambda error: peer.refuse(number, "failed", f"{type(error).__name__}: {error}"),
        )
        return None

    def _send_each(
        self, members: list[tuple[str, int]], message: bytes, until: int
    ) -> Generator[None, None, Arguments]:
        """Send to each, a step at a time: a large group holds up nobody else. Its sender's next message comes after the
        answer."""
        moment, sent = now(), 0
        for index, (channel, capacity) in enumerate(members, 1):
            sent += self._channels.send(channel, message, capacity, until, moment)
            if not index % STEP_CHANNELS and index < len(members):
                yield
        return {"sent": sent, "full": len(members) - sent}

    def _flush(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        prefix = arguments["prefix"]
        if not isinstance(prefix, str):
            raise InvalidMessage("invalid", "prefix is a text")
        self._channels.flush(prefix)
        self._groups.flush(prefix)
        self._tell_others(peer, "", "channel_flushed", {"prefix": prefix})
        return {}

    def _tell_others(self, peer: ControlPeer, owner: str, name: str, content: Arguments) -> None:
        """Say to the owner, or to all other processes where there is none, what is not to be brought again after a
        restart; not to the process of the peer, which knows."""
        own = self._connection(peer).process
        for process, peers in self._processes.items():
            if process != own and owner in ("", process):
                for other in peers:
                    other.push(name, content)

    def _message(self, arguments: Arguments) -> bytes:
        message, most = arguments["message"], self._runtime.settings.message_bytes_max
        if not isinstance(message, bytes):
            raise InvalidMessage("invalid", "message is bytes")
        if len(message) > most:
            raise InvalidMessage("too_large", f"{len(message)} bytes; FASTPATH_MESSAGE_BYTES_MAX is {most}")
        return message

    def _connection(self, peer: ControlPeer) -> _Connection:
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = _Connection()
            peer.ended.append(lambda: self._ended(peer))
        return connection

    def _ended(self, peer: ControlPeer) -> None:
        connection = self._connections.pop(peer)
        for channel, deliver in connection.receivers.values():
            self._channels.cancel(channel, deliver)
        peers = self._processes.get(connection.process, {})
        peers.pop(peer, None)
        if connection.process and not peers:
            del self._processes[connection.process]
            self._groups.gone(connection.process, now())

    def _sweep(self, moment: int) -> None:
        self._channels.sweep(moment)
        self._groups.sweep(moment)

    def _figures(self) -> dict[str, float]:
        channels = self._channels
        return {
            "channel_messages": channels.sent,
            "channel_messages_full": channels.full,
            "channel_messages_expired": channels.expired,
            "channel_messages_waiting": channels.waiting,
            "channel_bytes_waiting": channels.waiting_bytes,
            "channel_receivers": channels.receiving,
            "channel_memberships": self._groups.memberships,
        }


class _Connection:
    """A process' connection, and its receivers by the numbers of their requests."""

    def __init__(self) -> None:
        self.process = ""
        self.receivers: dict[int, tuple[str, Deliver]] = {}


def _last(steps: Generator[None, None, Arguments]) -> Arguments:
    """Return what the steps return, of which there is one."""
    try:
        next(steps)
    except StopIteration as end:
        return cast(Arguments, end.value)
    raise AssertionError("a group of one step has another one")


def _name(arguments: Arguments, what: str) -> str:
    return _text(arguments, what, CHANNEL_NAME_CHARS_MAX)


def _text(arguments: Arguments, what: str, most: int) -> str:
    text = arguments[what]
    if not isinstance(text, str) or not 0 < len(text) <= most:
        raise InvalidMessage("invalid", f"{what} is a text of 1 to {most} characters")
    return text


def _whole(arguments: Arguments, what: str, most: int) -> int:
    number = arguments[what]
    if type(number) is not int or not 0 < number <= most:
        raise InvalidMessage("invalid", f"{what} is a whole number from 1 to {most}")
    return number


def _ms(arguments: Arguments) -> int:
    """Return the argument ``seconds`` in ms."""
    seconds = arguments["seconds"]
    if type(seconds) not in (int, float) or not 0 < seconds <= SECONDS_MAX:
        raise InvalidMessage("invalid", f"seconds is a number above 0, and at most {SECONDS_MAX}")
    return max(1, int(seconds * 1000))
