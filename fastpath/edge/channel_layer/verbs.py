"""The verbs ``channel_…`` of the control socket: Django Channels' channels and groups (protocol.md 8.22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.channel_layer.channels import CHANNEL_NAME_CHARS_MAX, FULL, Channels
from ...core.channel_layer.groups import Groups, Membership, process_of
from ...core.protocol.errors import InvalidMessage
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import Scheduler
from .nodes import MORE, UNAVAILABLE, LayerNodes, full_reason
from .processes import ProcessConnection, Processes, Receiver
from .sending import STEP_CHANNELS, all_at_once, send_each

MEMBERSHIPS_PER_REQUEST_MAX = 1000
"""Bounds the work of one turn."""

PROCESS_CHARS_MAX = 64
"""The name under which a process receives."""

CAPACITY_MAX = 1_000_000
"""Messages in one channel."""

SECONDS_MAX = 10 * 365 * 86_400
"""Seconds that a message may wait, or a channel be in a group."""

Arguments = dict[str, Any]


class ChannelVerbs:
    """The channels and groups that the node keeps, on its first worker, and the connections that use them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._channels = Channels()
        self._groups = Groups()
        self._processes = Processes(self._ended)
        self._nodes = LayerNodes(runtime, self._channels, self._groups, self._processes)
        self._turns = Scheduler(runtime.loop)
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
            on_grid=lambda moment: self._nodes.on_grid(),
            on_second=self._on_second,
            nodes=self._nodes,
        )

    def _open(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        process = _text(arguments, "process", PROCESS_CHARS_MAX)
        if self._processes.connection(peer).process not in ("", process):
            raise InvalidMessage("invalid", "a connection is one process'")
        self._processes.open(peer, process)
        self._groups.came(process)
        self._nodes.came(process)
        return {"server": self._runtime.broker.server}

    def _send(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        channel, message = _name(arguments, "channel"), self._message(arguments)
        capacity, moment = _whole(arguments, "capacity", CAPACITY_MAX), now()
        until = moment + _ms(arguments)
        if self._nodes.send(channel, message, capacity, until, _answering(peer)):
            return None
        if not self._channels.send(channel, message, capacity, until, moment):
            raise InvalidMessage(FULL, full_reason(capacity))
        return {}

    def _receive(self, peer: ControlPeer, arguments: Arguments) -> None:
        channel, number = _name(arguments, "channel"), peer.request
        waiting = self._processes.connection(peer).receivers
        if number in waiting:
            raise InvalidMessage("invalid", f"request {number} is a receiver that waits: number requests upwards")
        receiver = Receiver(peer, channel, waiting, self._nodes.receivers.over)
        try:
            if process_of(channel):  # whose process is connected here
                self._channels.receive(channel, receiver.deliver, now())
            else:
                self._nodes.receivers.wait(receiver)
        except InvalidMessage:
            receiver.drop()
            raise

    def _cancel(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        number = _whole(arguments, "request", 1 << 53)
        found = self._processes.connection(peer).receivers.get(number)
        if found is not None and not self._nodes.receivers.cancel(found):
            self._channels.cancel(found.channel, found.deliver)
            found.withdraw()
        return {}

    def _return(self, peer: ControlPeer, arguments: Arguments) -> Arguments:
        del peer
        until, moment = arguments["until"], now()
        if type(until) is not int:
            raise InvalidMessage("invalid", "until is the whole number that came with the message")
        until = min(until, moment + SECONDS_MAX * 1000)
        self._nodes.give_back(_name(arguments, "channel"), self._message(arguments), until)
        return {}

    def _group_add(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        given, moment = arguments["memberships"], now()
        if not isinstance(given, list) or len(given) > MEMBERSHIPS_PER_REQUEST_MAX:
            raise InvalidMessage("invalid", f"memberships is a list of at most {MEMBERSHIPS_PER_REQUEST_MAX}")
        memberships: list[Membership] = []
        for row in given:
            if not isinstance(row, list) or len(row) != 4:
                raise InvalidMessage("invalid", "a membership is [group, channel, capacity, seconds]")
            named = dict(zip(("group", "channel", "capacity", "seconds"), row, strict=True))
            group, channel = _name(named, "group"), _name(named, "channel")
            memberships.append((group, channel, _whole(named, "capacity", CAPACITY_MAX), moment + _ms(named)))
            self._groups.add(*memberships[-1])  # also what another node keeps: who keeps it next is told by this one
        return None if self._nodes.add(memberships, _answering(peer)) else {}

    def _group_discard(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        group, channel = _name(arguments, "group"), _name(arguments, "channel")
        asked = self._nodes.discard(group, channel, _answering(peer))
        if self._groups.discard(group, channel):
            self._tell_others(peer, process_of(channel), "channel_discarded", {"group": group, "channel": channel})
        return None if asked else {}

    def _group_send(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        group, message, moment = _name(arguments, "group"), self._message(arguments), now()
        number, process, until = peer.request, self._processes.connection(peer).process, moment + _ms(arguments)

        def found() -> None:
            try:
                told = self._send_group(peer, number, process, group, message, until)
            except InvalidMessage as error:
                peer.refuse(number, error.code, error.reason)
                return
            if told is not None:
                peer.reply(number, told)

        members = self._nodes.here(self._groups.members(group, moment))
        if self._nodes.seek((channel for channel, _ in members), found):
            return None
        return self._send_group(peer, number, process, group, message, until)

    def _send_group(
        self, peer: ControlPeer, number: int, process: str, group: str, message: bytes, until: int
    ) -> Arguments | None:
        """Send to a group whose channels' homes are known; None: that takes some turns, and is answered then."""
        if not self._nodes.group_send(process, group, message, until):
            raise InvalidMessage(UNAVAILABLE, MORE)
        members = self._nodes.here(self._groups.members(group, now()))
        steps = send_each(self._channels, members, message, until)
        if len(members) <= STEP_CHANNELS:
            return all_at_once(steps)._asdict()
        self._turns.run(
            steps,
            lambda told: peer.reply(number, told._asdict()),
            lambda error: peer.refuse(number, "failed", f"{type(error).__name__}: {error}"),
        )
        return None

    def _flush(self, peer: ControlPeer, arguments: Arguments) -> Arguments | None:
        prefix = arguments["prefix"]
        if not isinstance(prefix, str):
            raise InvalidMessage("invalid", "prefix is a text")
        self._channels.flush(prefix)
        self._groups.flush(prefix)
        self._tell_others(peer, "", "channel_flushed", {"prefix": prefix})
        return None if self._nodes.flush(prefix, _answering(peer)) else {}

    def _tell_others(self, peer: ControlPeer, owner: str, name: str, content: Arguments) -> None:
        """Say to the owner, or to all other processes where there is none, what is not to be brought again after a
        restart; not to the process of the peer, which knows."""
        self._processes.tell(name, content, owner, self._processes.connection(peer).process)

    def _message(self, arguments: Arguments) -> bytes:
        message, most = arguments["message"], self._runtime.settings.message_bytes_max
        if not isinstance(message, bytes):
            raise InvalidMessage("invalid", "message is bytes")
        if len(message) > most:
            raise InvalidMessage("too_large", f"{len(message)} bytes; FASTPATH_MESSAGE_BYTES_MAX is {most}")
        return message

    def _ended(self, connection: ProcessConnection) -> None:
        for receiver in list(connection.receivers.values()):
            self._nodes.receivers.leave(receiver)
        process = connection.process
        if process and not self._processes.connected(process):
            self._groups.gone(process, now())
            self._nodes.gone(process, now())

    def _on_second(self, moment: int) -> None:
        self._channels.sweep(moment)
        self._groups.sweep(moment)
        self._nodes.on_second(moment)

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
            **self._nodes.figures(),
        }


def _answering(peer: ControlPeer) -> Callable[[str, str], None]:
    """Return what answers the request of the peer: by a code and reason, or by nothing where all is well."""
    number = peer.request

    def answer(code: str, reason: str) -> None:
        if code:
            peer.refuse(number, code, reason)
        else:
            peer.reply(number, {})

    return answer


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
