"""The protocol as the client sees it, without I/O or clock: bytes in, events and bytes out (protocol.md 3 to 5).

It outlives connections: ``open()`` begins one, ``lose()`` ends it. What is to be sent gathers in ``out``. Its
subscriptions are ``following``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from msgspec import UNSET

from fastpath.core.protocol import codec
from fastpath.core.protocol import messages as wire
from fastpath.core.protocol.limits import COMMAND_BYTES_LEAST, REQUEST_MS
from fastpath.core.protocol.messages import GUARANTEED, Fields, Value

from ..errors import TooLarge
from ..message import Status
from .events import Answered, Event, InterestChange, NamedServers, RequestArrived, RequestOver
from .subscription_set import covered
from .subscriptions import ClientSubscriptions

CLIENT = "py/1"


class ClientState:
    """The state of one client over all its connections."""

    def __init__(self, form: codec.Form, client: str = CLIENT, publisher: str = "") -> None:
        self._client = client
        self._publisher = publisher
        self.form: codec.Form = form
        self.out: list[bytes] = []
        self.following = ClientSubscriptions(self.command, self._fits)
        self.frame_bytes: float = COMMAND_BYTES_LEAST
        """The largest frame that this connection's server takes."""
        self.user = ""
        self.server = ""
        self.ping_ms = 0
        self._base = 0
        self._id = 0
        self._offered: list[str] = []
        self._responded: list[str] = []
        self._interest: dict[str, None] = {}
        self._untold: list[Callable[[], int]] = []

    def publish_as(self, publisher: str) -> None:
        """Number publications under this name from now on; before the first of them."""
        self._publisher = publisher

    # The connection.

    def open(self, token: str, form: codec.Form | None = None) -> None:
        """Say who we are and ask for all subjects from where they were: a connection stands."""
        self.form = form or self.form
        self.out.clear()
        self.frame_bytes = COMMAND_BYTES_LEAST  # until it says more
        client, publisher = self._client, self._publisher
        self._id += 1
        connect = wire.Connect(id=self._id, token=token, client=client, publisher=publisher)
        self.out.append(codec.encode(connect, self.form))  # whatever its size: without it nothing is known
        self.following.open()
        self._untold = []
        if self._offered:
            self._untold.append(lambda: self.advertise(self._offered))
        if self._responded:
            self._untold.append(lambda: self.respond(self._responded))
        self._tell_patterns(last=False)

    def _tell_patterns(self, last: bool) -> list[Event]:
        """Tell the server which patterns this client has; what passes its bound is left out when that is known."""
        untold, self._untold = self._untold, []
        refused: list[Event] = []
        for tell in untold:
            try:
                tell()
            except TooLarge as error:
                if last:
                    refused.append(Status(name="error", reason=f"patterns: {error}"))
                else:
                    self._untold.append(tell)
        return refused

    def lose(self) -> list[Event]:
        """Forget the ids of the connection, which is gone, and who is interested in what is published here."""
        self.out.clear()
        self.following.lose()
        over: list[Event] = [RequestOver(None)] if self._responded else []
        return [*self._keep_interests(()), *over]

    def take_out(self) -> list[bytes]:
        """Take the frames that are to be sent now."""
        frames, self.out = self.out, []
        return frames

    # Commands: each answers its id, or raises TooLarge for a frame that would end the connection.

    def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None,
        closure: str,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str = "",
        publication: int = 0,
        replace: bool = False,
        removed: bool = False,
        traceparent: str = "",
    ) -> int:
        """Publish one message, now."""
        return self.command(
            lambda number: wire.Publish(
                id=number,
                subject=subject,
                content=content,
                fields=fields or {},
                retained=retained,
                qos=qos,
                reply_to=reply_to,
                closure=closure,
                publication=publication,
                replace=replace,
                removed=removed,
                traceparent=traceparent,
            )
        )

    def renew(self, token: str) -> int:
        """Renew the token of the live connection."""
        return self.command(lambda number: wire.Token(id=number, token=token))

    def ping(self) -> int:
        """Ask for a sign of life."""
        return self.command(lambda number: wire.Ping(id=number))

    def presence(self, subject: str) -> int:
        """Ask who is subscribed to a subject; to none: who is online."""
        return self.command(lambda number: wire.Presence(id=number, subject=subject))

    def offer(self, patterns: Sequence[str]) -> list[Event]:
        """Set what this client can publish, over all connections; ``advertise`` tells the server."""
        self._offered = list(patterns)
        return self._keep_interests(self._offered)

    def advertise(self, patterns: Sequence[str]) -> int:
        """Tell the server what this client can publish."""
        return self.command(lambda number: wire.Advertise(id=number, patterns=list(patterns)))

    def responds(self, patterns: Sequence[str]) -> None:
        """Set which requests this client answers, over all connections; ``respond`` tells the server."""
        self._responded = list(patterns)

    def respond(self, patterns: Sequence[str]) -> int:
        """Tell the server which requests this client answers."""
        return self.command(lambda number: wire.Respond(id=number, patterns=list(patterns)))

    def request(self, subject: str, content: Value, fields: Fields, timeout: int, replies: int) -> int:
        """Ask whoever responds; ``timeout`` is in ms."""
        timeout = REQUEST_MS if timeout == REQUEST_MS else timeout  # the very default is left out
        return self.command(
            lambda number: wire.MakeRequest(
                id=number, subject=subject, content=content, fields=fields, timeout=timeout, replies=replies
            )
        )

    def reply(self, reply: wire.GiveReply) -> None:
        """Answer a request."""
        self.out.append(self._framed(reply))

    def command(self, make: Callable[[int], wire.AnyCommand]) -> int:
        """Send a command, which is made with its id; answers the id."""
        self.out.append(self._framed(make(self._id + 1)))
        self._id += 1
        return self._id

    def _framed(self, command: wire.AnyCommand) -> bytes:
        frame = codec.encode(command, self.form)
        if len(frame) > self.frame_bytes:
            raise TooLarge("too_large", f"{len(frame)} bytes as a frame; the server takes {self.frame_bytes}")
        return frame

    def _fits(self, command: wire.AnyCommand) -> bool:
        return len(codec.encode(command, self.form)) <= self.frame_bytes

    # What arrives.

    def receive(self, data: bytes) -> list[Event]:
        """Take in one frame; raises BadFrame."""
        frame = codec.decode_server(data, self.form)
        if isinstance(frame, wire.Data):
            return self.following.message(frame, self._base)
        match frame:
            case wire.Connected():
                self.user = frame.user or ""
                self.server, self._base, self.ping_ms = frame.server, frame.base, frame.ping_ms
                self.frame_bytes = inf if frame.frame_bytes is UNSET else frame.frame_bytes
                return [Answered(frame.id, frame), *self._tell_patterns(last=True)]
            case wire.Base():
                self._base = frame.base
                return []
            case wire.Subscribed():
                return self.following.subscribed(frame)
            case wire.Epoch():
                return self.following.epoch(frame)
            case wire.Revoked():
                return self.following.revoked(frame)
            case wire.Lagging() | wire.CaughtUp():
                return self.following.lagging(frame)
            case wire.Interest():
                return self._interests(frame.subjects, frame.wanted)
            case wire.Asked():
                return [RequestArrived(frame)]
            case wire.Over():
                return [RequestOver(frame.to)]
            case wire.Expiring():
                return [Status(name="expiring")]
            case wire.Notice():
                named: list[Event] = [NamedServers(frame.servers)] if frame.servers else []
                return [*named, Status(name="notice", notice=frame.code, reason=f"{frame.code}: {frame.text}")]
            case wire.Error():
                return self.following.error(frame)
            case wire.Published() if frame.id is UNSET:
                return []
            case wire.Advertised():
                refused = [offer for offer in frame.results if offer.error]
                told = [Status(name="not_advertised", subject=offer.pattern, reason=offer.reason) for offer in refused]
                return [Answered(frame.id, frame), *told]
        return [Answered(frame.id, frame)]  # type: ignore[arg-type]

    def _interests(self, subjects: Iterable[str], wanted: bool) -> list[Event]:
        """Note that subjects are wanted, or no more; returns an event for those that changed."""
        interest, told = self._interest, dict.fromkeys(subjects)
        if not wanted:
            return self._uninteresting([subject for subject in told if subject in interest])
        begun = [subject for subject in told if subject not in interest and covered(subject, self._offered)]
        interest.update(dict.fromkeys(begun))
        return [InterestChange(begun, wanted=True)] if begun else []

    def _keep_interests(self, of: Sequence[str]) -> list[Event]:
        """Drop the interest in subjects that none of the patterns ``of`` covers."""
        return self._uninteresting([subject for subject in self._interest if not covered(subject, of)])

    def _uninteresting(self, subjects: list[str]) -> list[Event]:
        for subject in subjects:
            del self._interest[subject]
        return [InterestChange(subjects, wanted=False)] if subjects else []
