"""Django's hook, as one process asks it: over the control socket, or by way of the first worker (protocol.md 8.7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...core.auth.grants import Principal
from ...core.auth.hook_decisions import HookDecisions, HookState
from ...core.auth.hook_questions import CONNECT, DISCONNECT, HookReply, Key, Verdict, about_party
from ...core.auth.reasons import ASKED
from ...core.broker.observers import ConnectionListener
from ...core.delivery.audience import Client
from ...core.protocol.errors import InvalidMessage
from ...core.sessions.deferred_commands import DeferredCommands, Facts, facts_of, refused_by
from ...core.websocket.handshake import Request
from ..node import messages
from ..runtime.component import NO_HEADERS, ControlPeer, GatedPublisher, Offers
from ..runtime.connection_names import source_id
from ..runtime.runtime import Runtime, now
from .publisher_gate import PublisherGate
from .workers import Runners

HEADERS_BYTES_MAX = 4096
"""Bytes that are kept of a request's headers for the hook; those of the handshake itself are not."""

TICK_SECONDS = 0.1

_NO_VERDICT = [False, "the hook's verdict is none", 0]

_HANDSHAKE = frozenset(
    ("upgrade", "connection", "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions")
)

log = logging.getLogger("fastpath.hooks")


class DjangoHook(ConnectionListener):
    """All that this process asks; on the first worker it also asks for the others."""

    def __init__(self, runtime: Runtime, asking: HookDecisions) -> None:
        self._runtime = runtime
        self._asking = asking
        self._prefix = runtime.broker.server[:8]
        self._stepping = False
        self._requests = 0
        self._clients: dict[Client, DeferredCommands] = {}
        self._publishers: set[PublisherGate] = set()
        self.runners = Runners(runtime.settings.hook_seconds, self._answered)
        asking.run_by(self._wake, self._fault)
        self.offers = Offers(
            verbs={"hooks": self._run_hooks, "answer": self._take_answer, "recheck": self._recheck_all},
            messages={
                messages.Ask: self._asked_by,
                messages.Asked: self._answered_by,
                messages.Tell: lambda worker, told: self.runners.tell(told.about),
                messages.Recheck: lambda worker, told: self._recheck(told.user),
            },
            figures=self.figures,
            gate=self,
            observes=self,
        )
        runtime.loop.call_later(TICK_SECONDS, self._tick)

    # Who is asked about

    def opened(self, client: Client, request: Request, token: str) -> None:
        """Take a client that has come, with this token in its address."""
        facts = {
            "kind": "client",
            "connection": f"{self._prefix}-{source_id(self._runtime, client)}",
            "address": client.address,
            "headers": bounded(request.headers),
        }
        self._clients[client] = DeferredCommands(self._runtime.sessions, self._asking, client, token, facts)

    def disconnected(self, client: Client) -> None:
        """Observer: it is gone; the hook is told if it had been let in."""
        party = self._clients.pop(client, None)
        if party is not None:
            code, reason = client.end
            self._gone(party, code, reason)

    def publisher(
        self, connection: GatedPublisher, principal: Principal, token: str, welcome: Callable[[], None]
    ) -> PublisherGate:
        """Take a publisher that has come; call ``welcome`` when the publisher is let in."""
        facts = {
            "kind": "publisher",
            "connection": f"{self._prefix}-{source_id(self._runtime, connection)}",
            "address": connection.address,
            "headers": {},
        } | facts_of(principal, token, self._runtime.broker.grants.mode)
        party = PublisherGate(self._runtime, self._asking, connection, principal, facts, welcome, self._publisher_gone)
        self._publishers.add(party)
        party.begin()
        return party

    def _publisher_gone(self, party: PublisherGate, code: int, reason: str) -> None:
        self._publishers.discard(party)
        self._gone(party, code, reason)

    def _gone(self, party: DeferredCommands | PublisherGate, code: int, reason: str) -> None:
        if party.let_in and DISCONNECT in self._asking.events:
            about = about_party(DISCONNECT, party.facts()) | {"code": int(code), "reason": reason}
            if self._runtime.workers.follows:
                self._runtime.workers.to_first(messages.Tell(about))
            else:
                self.runners.tell(about)
        party.asked.close()

    def request(
        self,
        token: str,
        action: str,
        subject: str,
        done: Callable[[str], None],
        address: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Ask if the bearer of the token may do that: ``done`` gets the reason why not, empty for yes; raise
        Refused."""
        self._requests += 1
        facts = {
            "kind": "request",
            "connection": f"{self._prefix}-r{self._requests}",
            "address": address,
            "headers": bounded(headers),
        }
        _Request(self._runtime, self._asking, token, (action, subject), facts, done).begin()

    def figures(self) -> dict[str, float]:
        """Return how asking goes; the runners are the first worker's."""
        if self._runtime.workers.follows:
            return {}
        runners = self.runners
        return {
            "hook_runners": len(runners),
            "hook_open": runners.open,
            "hook_asked": runners.asked,
            "hook_late": runners.late,
            "hook_untold": runners.untold,
        }

    # Questions out

    def _wake(self) -> None:
        if not self._stepping:
            self._stepping = True
            self._runtime.loop.call_soon(self._step)

    def _step(self) -> None:
        self._stepping = False
        questions, more = self._asking.step(now())
        if questions and self._runtime.workers.follows:
            self._runtime.workers.to_first(messages.Ask([(one.number, one.turn, one.about) for one in questions]))
        elif questions:
            moment = self._runtime.loop.time()
            for one in questions:
                self.runners.ask(0, one.number, one.turn, one.about, moment)
        if more:
            self._wake()

    def _fault(self, error: Exception) -> None:
        log.error("fault while asking the hook", exc_info=error)
        self._runtime.end()

    def _asked_by(self, worker: int, asked: messages.Ask) -> None:
        """Ask what another worker asks."""
        moment = self._runtime.loop.time()
        for number, turn, about in asked.questions:
            self.runners.ask(worker, number, turn, about, moment)

    def _tick(self) -> None:
        self._runtime.loop.call_later(TICK_SECONDS, self._tick)
        self.runners.tick(self._runtime.loop.time())
        self._asking.tick(now())
        self._runtime.end()

    # Answers in

    def _answered(self, worker: int, number: int, reply: HookReply) -> None:
        if worker:
            self._runtime.workers.to_others(messages.Asked(number, msgspec.to_builtins(reply)), worker)
            return
        try:
            self._asking.answer(number, reply, now())
        except Exception:
            log.exception("fault while handling an answer of the hook")
        self._runtime.end()
        self._runtime.follow_rights()

    def _answered_by(self, worker: int, answered: messages.Asked) -> None:
        """Take the answer of the first worker."""
        del worker
        self._answered(0, answered.number, msgspec.convert(answered.reply, HookReply))

    # Verbs of the control socket

    def _run_hooks(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Have this connection run the hook from now on."""
        del arguments
        log.info("a runner of the hook has come")
        self.runners.add(peer)
        settings = self._runtime.settings
        return {"events": sorted(self._asking.events), "seconds": settings.hook_seconds, "mode": settings.mode}

    def _take_answer(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Take an answer, which is not answered itself unless it is none."""
        self.runners.heard(peer)
        number = int(arguments.pop("ask"))
        try:
            reply = read_reply(arguments)
        except msgspec.ValidationError as error:
            self.runners.answer(number, HookReply(failed="the hook's answer is none"))
            raise InvalidMessage("invalid", str(error)) from None
        self.runners.answer(number, reply)

    def _recheck_all(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask again about a user's connections, or everybody's."""
        del peer
        user = arguments.get("user")
        if user is not None and not isinstance(user, str):
            raise InvalidMessage("invalid", "user is a name, or absent for everybody")
        self._runtime.workers.to_others(messages.Recheck(user))
        self._recheck(user)
        return {}

    def _recheck(self, user: str | None) -> None:
        parties: list[DeferredCommands | PublisherGate] = [*self._clients.values(), *self._publishers]
        for party in parties:
            if user is None or not party.let_in or party.facts()["user"] == user:
                self._asking.recheck(party.asked)


class _Request:
    """A single question of Django's own: a snapshot, a check. It is let in first, as any connection is."""

    def __init__(
        self, runtime: Runtime, asking: HookDecisions, token: str, key: Key, facts: Facts, done: Callable[[str], None]
    ) -> None:
        self._runtime = runtime
        self._key = key
        self._done: Callable[[str], None] | None = done
        grants = runtime.broker.grants
        self._principal = grants.principal(token, now())
        self._facts = facts | facts_of(self._principal, token, grants.mode)
        self._connects = CONNECT in asking.events
        self.asked = self._principal.asked = HookState(asking, self)

    def begin(self) -> None:
        """Ask; what is known is answered at once."""
        if self._connects:
            self.asked.want((CONNECT, ""))
        else:
            self._look()

    @property
    def waits(self) -> bool:
        """Always: it is there for that."""
        return True

    def facts(self) -> Facts:
        """Return who asks."""
        return self._facts | {"again": False}

    def uses(self, key: Key, *, strictly: bool = False) -> bool:
        """Return whether the request still wants the right: it waits for one answer."""
        del strictly
        return key == self._key

    def parks(self, command: Any, data: bytes, now: int) -> bool:
        """Return False: a request has no commands that could wait."""
        del command, data, now
        return False

    def fail(self) -> None:
        """End with a fault of ours."""
        self._end(f"{ASKED}: a fault of the server")

    def answered(self, event: str, subjects: list[str], reply: HookReply, now: int) -> bool:
        """Let in, or answered."""
        del subjects, now
        if reply.disconnect is not None:
            self._end(reply.disconnect or "the hook ends the connection")
        elif event == CONNECT and (reason := refused_by(reply)):
            self._end(reason)
        elif event == CONNECT:
            if reply.user is not None and self._runtime.broker.grants.mode == "custom":
                self._principal.user = self._facts["user"] = reply.user
            self._look()
        else:
            self._end(refused_by(reply))
        return True

    def _look(self) -> None:
        reason = self._runtime.broker.grants.check(self._principal, *self._key, now())
        if reason is not ASKED:
            self._end(reason)

    def _end(self, reason: str) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(reason)
        self.asked.close()


def read_reply(arguments: dict[str, Any]) -> HookReply:
    """Read an answer of the hook; raise ValidationError. Of several verdicts one that is none denies its subject
    alone."""
    try:
        return msgspec.convert(arguments, HookReply)
    except msgspec.ValidationError as error:
        given = arguments.get("verdicts")
        if not isinstance(given, list) or len(given) < 2:
            raise
        log.warning("a verdict of the hook is none, and denies: %s", error)
    return msgspec.convert(
        arguments | {"verdicts": [one if _is_verdict(one) else _NO_VERDICT for one in given]}, HookReply
    )


def _is_verdict(given: Any) -> bool:
    try:
        msgspec.convert(given, Verdict)
    except msgspec.ValidationError:
        return False
    return True


def bounded(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a hook may want to see, as many as there is room for."""
    kept: dict[str, str] = {}
    room = HEADERS_BYTES_MAX
    for name, value in headers.items():
        if name in _HANDSHAKE:
            continue
        room -= len(name) + len(value)
        if room < 0:
            break
        kept[name] = value
    return kept
