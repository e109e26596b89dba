"""The control socket: Django pushes rules and publications, asks for snapshots and figures (protocol.md 8)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from ...core.auth.hook_questions import LATE
from ...core.auth.reasons import PENDING
from ...core.auth.rule_grants import RuleGrants
from ...core.auth.rules import PUBLISH, SUBSCRIBE
from ...core.broker.admission import Outcome
from ...core.broker.rights_records import NAMED_MAX, Fault
from ...core.protocol.errors import Close, InvalidMessage, InvalidSubject, Refused
from ...core.protocol.packets import BATCH_MESSAGES_MAX, PUBLICATION_MAX, PUBLISHER_CHARS_MAX, Unpacker, pack
from ...core.protocol.subject import check_subject, is_reported, is_system
from ..runtime.runtime import Runtime, now
from ..telemetry.figures import Statistics
from ..workers.drain import Drainer
from ..workers.leader import Links

PACKET_BYTES_MAX = 16 << 20
"""A control frame (protocol.md 8.1)."""

CHUNK_MAX = 1000
"""Rules, users, sessions and rows of options in one rules_chunk: bounds the work of one tick."""

UNSENT_BYTES_MAX = 16 << 20
"""While more waits unsent for a peer nothing is read from it, and what was read is not handled."""

TURN_BYTES = 1 << 20
"""After so much of answers the rest of what a peer has asked waits for the next turn of the loop."""

log = logging.getLogger("fastpath.control")


class ControlConnection(asyncio.Protocol):
    """One connection of Django; whoever can open the socket is trusted."""

    def __init__(
        self, runtime: Runtime, statistics: Statistics, links: Links | None = None, drain: Drainer | None = None
    ) -> None:
        self._runtime = runtime
        self._statistics = statistics
        self._links = links
        self._drain = drain
        self._unpacker = Unpacker(PACKET_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._answers: list[bytes] | None = None  # gathered while a handler runs
        self._requests: deque[Any] = deque()  # that were read and are not handled yet
        self._full = self._paused = False
        self.request = 0
        self.ended: list[Callable[[], None]] = []
        self._verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
            "hello": self._hello,
            "snapshot": self._snapshot,
            "check": self._check,
            "stats": self._stats,
            "rules_begin": self._rules_begin,
            "rules_chunk": self._rules_chunk,
            "rules_commit": self._rules_commit,
            "rules_diff": self._rules_diff,
            "drain": self._begin_drain,
            "undrain": self._end_drain,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        self._runtime.control_connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Django is gone."""
        del exc
        self._requests.clear()
        if self._transport is not None:
            self._runtime.control_connections.discard(self._transport)
        for ended in self.ended:
            ended()

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Answer a request, also while another is handled."""
        self._send([number, "ok", answer])

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Answer a request with an error."""
        self._send([number, "error", {"code": code, "reason": reason}])

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Say something that was not asked; how many bytes wait unsent."""
        self._send([0, name, content])
        return self.waiting()

    def waiting(self) -> int:
        """How many bytes wait unsent."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _send(self, packet: list[Any]) -> None:
        if self._answers is not None:
            self._answers.append(pack(packet))
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(packet))

    def pause_writing(self) -> None:
        """Read nothing more of a peer that does not take its answers, so that nothing more is answered."""
        self._full = True
        self._read()

    def resume_writing(self) -> None:
        """Read again of a peer that takes its answers again."""
        self._full = False
        self._read()
        self._runtime.loop.call_soon(self._go_on)

    def _read(self) -> None:
        """Read, unless something waits that was read, or too much that was answered."""
        assert self._transport is not None
        paused = self._full or bool(self._requests)
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Requests, or parts of them."""
        waits = bool(self._requests)
        self._requests += self._unpacker.feed(data)
        if not waits:
            self._handle()

    def _go_on(self) -> None:
        assert self._transport is not None
        if self._requests and not self._transport.is_closing():
            self._handle()

    def _handle(self) -> None:
        """What was read, as far as the answers are not too much at once."""
        assert self._transport is not None
        self._answers = []
        size = 0
        while self._requests and size < TURN_BYTES and not self._full:
            answer = self._answer(self._requests.popleft())
            if answer is not None:
                self._answers.append(pack(answer))
                size += len(self._answers[-1])
        self._runtime.end()  # before the answers: what they acknowledge is in the log by then
        answers, self._answers = self._answers, None
        self._transport.writelines(answers)
        if self._requests and not self._full:
            self._runtime.loop.call_soon(self._go_on)
        self._read()
        if self._unpacker.error is not None and not self._requests:
            log.error("control connection closed: %s", self._unpacker.error)
            self._transport.write(pack([0, "error", {"code": "invalid", "reason": str(self._unpacker.error)}]))
            self._transport.close()
        self._runtime.end()
        self._runtime.follow_rights()

    def _answer(self, packet: list[Any]) -> list[Any] | None:
        """The answer to a request; None when it follows later."""
        number = self.request = packet[0] if packet and isinstance(packet[0], int) else 0
        try:
            match packet:
                case [int(), "publish", dict(arguments)]:
                    self._publish(number, arguments)
                    return None
                case [int(), str(verb), dict(arguments)] if verb in self._verbs:
                    answer = self._verbs[verb](arguments)
                    return None if answer is None else [number, "ok", answer]
                case [int(), str(verb), dict(arguments)] if verb in self._runtime.verbs:
                    answer = self._runtime.verbs[verb](self, arguments)
                    return None if answer is None else [number, "ok", answer]
                case _:
                    verbs = ", ".join(("publish", *self._verbs, *self._runtime.verbs))
                    raise InvalidMessage("invalid", f"a request is [id, verb, {{…}}]; verbs: {verbs}")
        except InvalidMessage as error:
            return [number, "error", {"code": error.code, "reason": error.reason}]
        except KeyError as error:
            return [number, "error", {"code": "invalid", "reason": f"the argument {error.args[0]} is missing"}]
        except (TypeError, ValueError) as error:
            return [number, "error", {"code": "invalid", "reason": f"{type(error).__name__}: {error}"}]
        except Exception as error:
            log.exception("fault while handling a control request")
            return [number, "error", {"code": "failed", "reason": f"{type(error).__name__}: {error}"}]

    def _hello(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments.get("version", 1) != 1:
            raise InvalidMessage("invalid", "this server speaks version 1")
        broker = self._runtime.broker
        return {
            "version": 1,
            "server": broker.server,
            "pid": os.getpid(),
            "mode": broker.grants.mode,
            "epoch": broker.engine.epoch,
            "generation": self._runtime.sessions.rights.generation,
            "accepts": "rights" if isinstance(broker.grants, RuleGrants) else "options",
            "options": self._runtime.sessions.rights.options_told,
            "engine": broker.engine.name,
            "shared": broker.engine.shared,
            "draining": self._drain is not None and self._drain.active,
            "message_bytes_max": self._runtime.settings.message_bytes_max,
        }

    def _publish(self, number: int, arguments: dict[str, Any]) -> None:
        rows = arguments["messages"]
        publisher, first = arguments.get("publisher") or "", arguments.get("first") or 0
        if not isinstance(rows, list) or len(rows) > BATCH_MESSAGES_MAX:
            raise InvalidMessage("invalid", f"messages is a list of at most {BATCH_MESSAGES_MAX} [subject, content, …]")
        if not isinstance(publisher, str) or len(publisher) > PUBLISHER_CHARS_MAX:
            raise InvalidMessage("invalid", f"publisher is a text of at most {PUBLISHER_CHARS_MAX} characters")
        if first and not (publisher and 0 < first <= PUBLICATION_MAX - len(rows)):
            raise InvalidMessage("invalid", "first numbers publications from 1 on, and needs a publisher")

        def published(outcomes: list[Outcome]) -> None:
            """Where messages are numbered elsewhere, or have to be safe first, this is later."""
            self.reply(number, {"epoch": self._runtime.broker.engine.epoch, "results": outcomes})

        # No user's key is such a one: those begin with a number.
        key = f"control:{publisher}" if publisher else None
        self._runtime.publish_rows(None, rows, published, key, first)

    def _snapshot(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        subject = arguments["subject"]
        try:
            check_subject(subject)
            return self._decide(subject, SUBSCRIBE, arguments.get("token"), lambda reason: self._found(subject, reason))
        except InvalidSubject as error:
            return {"status": "invalid", "reason": error.reason, "message": None}
        except Refused as error:
            status = "not_ready" if error.code is Close.NOT_READY else "bad_token"
            return {"status": status, "reason": error.reason, "message": None}

    def _found(self, subject: str, reason: str) -> dict[str, Any]:
        if reason:
            status = "not_ready" if reason in PENDING or reason == LATE else "denied"
            return {"status": status, "reason": reason, "message": None}
        topic = self._runtime.broker.interest.topics.get(subject)
        snapshot = None if topic is None else self._runtime.broker.snapshot(topic)
        if topic is None or snapshot is None:
            return {"status": "none", "reason": self._runtime.broker.nothing_of(topic), "message": None}
        return {
            "status": "found",
            "reason": "",
            "message": {
                "subject": subject,
                "content": snapshot.newest.content,
                "fields": snapshot.fields or {},
                "epoch": topic.epoch,
                "seq": topic.seq,
                "time": snapshot.newest.time,
                "as_of": snapshot.newest.as_of,
            },
        }

    def _check(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        action = arguments["action"]
        if action not in (SUBSCRIBE, PUBLISH):
            raise InvalidMessage("invalid", "action is subscribe or publish")
        try:
            check_subject(arguments["subject"])
            if action == PUBLISH and is_system(arguments["subject"]) and not is_reported(arguments["subject"]):
                return {"allowed": False, "reason": "subjects below /__sys__ belong to the server"}
            return self._decide(
                arguments["subject"],
                action,
                arguments.get("token"),
                lambda reason: {"allowed": not reason, "reason": reason},
            )
        except InvalidSubject as error:
            reason = error.reason
        except Refused as error:
            reason = f"{error.code.label}: {error.reason}"
        return {"allowed": False, "reason": reason}

    def _decide(
        self, subject: str, action: str, token: str | None, answer: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The answer for the reason why not, empty for yes; None: a hook is asked, and it follows. Raises Refused."""
        grants, asks, number = self._runtime.broker.grants, self._runtime.asks, self.request
        if not grants.ready:
            token = ""
        elif asks is not None:
            asks.request(token or "", action, subject, lambda reason: self.reply(number, answer(reason)))
            return None
        return answer(grants.check(grants.principal(token or "", now()), action, subject, now()))

    def _stats(self, arguments: dict[str, Any]) -> dict[str, Any]:
        del arguments
        each = self._statistics.by_worker()
        return {**self._statistics.figures(each), "by_worker": each}

    def _begin_drain(self, arguments: dict[str, Any]) -> dict[str, Any]:
        assert self._drain is not None  # only workers without control have none
        servers = [(str(url), int(weight)) for url, weight in arguments.get("servers") or ()]
        if any(not 0 <= weight <= 100 for _, weight in servers):
            raise InvalidMessage("invalid", "a weight is 0 to 100")
        self._drain.begin(max(int(arguments.get("per_second") or 0), 0), servers)
        return {"clients": int(self._statistics.figures()["connections"])}

    def _end_drain(self, arguments: dict[str, Any]) -> dict[str, Any]:
        del arguments
        assert self._drain is not None
        self._drain.cancel()
        return {"clients": int(self._statistics.figures()["connections"])}

    def _rules_begin(self, arguments: dict[str, Any]) -> dict[str, Any]:
        del arguments
        self._runtime.sessions.rights.begin()
        return {}

    def _rules_chunk(self, arguments: dict[str, Any]) -> dict[str, Any]:
        rules, users, sessions = (arguments.get(name) or [] for name in ("rules", "users", "sessions"))
        options = arguments.get("options")
        if any(len(part) > CHUNK_MAX for part in (rules, users, sessions, options or [])):
            raise InvalidMessage("limit", f"at most {CHUNK_MAX} of each in a chunk")
        self._runtime.sessions.rights.add(rules, users, sessions, options)
        return {}

    def _rules_commit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        generation = int(arguments["generation"])
        left_out = self._runtime.sessions.rights.commit(generation, now())
        if self._links is not None:
            self._links.rights_replaced()
        self._runtime.follow_publishers()
        what = "rights" if isinstance(self._runtime.broker.grants, RuleGrants) else "options"
        log.info("%s of generation %d are in force", what, generation)
        _log_left_out(left_out)
        return {}

    def _rules_diff(self, arguments: dict[str, Any]) -> dict[str, Any]:
        after, generation = arguments["after"], int(arguments["generation"])
        rules, removed, users, sessions = (
            arguments.get(name) or [] for name in ("rules", "removed", "users", "sessions")
        )
        options = arguments.get("options")
        left_out = self._runtime.sessions.rights.change(
            after, generation, rules, removed, users, sessions, now(), options, options_told="options" in arguments
        )
        if self._links is not None:
            self._links.rights_changed((after, generation, rules, removed, users, sessions, options))
        self._runtime.follow_publishers()
        _log_left_out(left_out)
        return {}


def _log_left_out(left_out: dict[str, Fault]) -> None:
    """Name what cannot be read, which an operator has to put right: the worse where it may have denied something."""
    for number, (name, fault) in enumerate(left_out.items()):
        if number == NAMED_MAX:
            log.error("%d more that cannot be read", len(left_out) - number)
            break
        level = logging.ERROR if fault.denies else logging.WARNING
        log.log(level, "%s cannot be read and is left out: %s", name, fault.reason)
