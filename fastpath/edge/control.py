"""The control socket: Django pushes rules and publications, asks for snapshots and figures (protocol.md 8)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, cast

from ..core.admission import Outcome
from ..core.errors import InvalidMessage, InvalidSubject, Refused
from ..core.packets import Unpacker, pack
from ..core.rules import PUBLISH, SUBSCRIBE
from ..core.subject import check_subject
from .figures import Statistics
from .hub import Hub, now
from .link_first import Links

PACKET_BYTES_MAX = 16 << 20
"""A control frame (protocol.md 8.1)."""

CHUNK_MAX = 1000
"""Rules, users and sessions in one rules_chunk: bounds the work of one tick."""

log = logging.getLogger("fastpath.control")


class ControlConnection(asyncio.Protocol):
    """One connection of Django; whoever can open the socket is trusted."""

    def __init__(self, hub: Hub, statistics: Statistics, links: Links | None = None) -> None:
        self._hub = hub
        self._statistics = statistics
        self._links = links
        self._unpacker = Unpacker(PACKET_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": self._hello,
            "publish": self._publish,
            "snapshot": self._snapshot,
            "check": self._check,
            "stats": self._stats,
            "rules_begin": self._rules_begin,
            "rules_chunk": self._rules_chunk,
            "rules_commit": self._rules_commit,
            "rules_diff": self._rules_diff,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Requests, or parts of them."""
        assert self._transport is not None
        answers = [pack(self._answer(packet)) for packet in self._unpacker.feed(data)]
        self._hub.end()  # before the answers: what they acknowledge is in the log by then
        self._transport.writelines(answers)
        if self._unpacker.error is not None:
            log.error("control connection closed: %s", self._unpacker.error)
            self._transport.write(pack([0, "error", {"code": "invalid", "reason": str(self._unpacker.error)}]))
            self._transport.close()
        self._hub.end()
        self._hub.follow_rights()

    def _answer(self, packet: list[Any]) -> list[Any]:
        number = packet[0] if packet and isinstance(packet[0], int) else 0
        try:
            match packet:
                case [int(), str(verb), dict(arguments)] if verb in self._verbs:
                    return [number, "ok", self._verbs[verb](arguments)]
                case _:
                    raise InvalidMessage("invalid", f"a request is [id, verb, {{…}}]; verbs: {', '.join(self._verbs)}")
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
        broker = self._hub.broker
        return {
            "version": 1,
            "server": broker.server,
            "pid": os.getpid(),
            "mode": broker.grants.mode,
            "epoch": broker.engine.epoch,
            "generation": broker.grants.generation,
        }

    def _publish(self, arguments: dict[str, Any]) -> dict[str, Any]:
        rows = arguments["messages"]
        if not isinstance(rows, list):
            raise InvalidMessage("invalid", "messages is a list of [subject, content, fields, meta]")
        results: list[Outcome] = []
        # Control is served where the engine is, so the outcomes are there when the call returns.
        self._hub.publish_rows(None, rows, results.extend)
        return {"epoch": self._hub.broker.engine.epoch, "results": results}

    def _snapshot(self, arguments: dict[str, Any]) -> dict[str, Any]:
        subject = arguments["subject"]
        try:
            check_subject(subject)
            reason = self._reason(subject, SUBSCRIBE, arguments.get("token"))
        except InvalidSubject as error:
            return {"status": "invalid", "reason": error.reason, "message": None}
        except Refused as error:
            return {"status": "bad_token", "reason": error.reason, "message": None}
        if reason:
            status = "denied" if self._hub.broker.grants.ready else "not_ready"
            return {"status": status, "reason": reason, "message": None}
        topic = self._hub.broker.interest.topics.get(subject)
        if topic is None or topic.snapshot is None:
            return {"status": "none", "reason": "no message has been published yet", "message": None}
        snapshot = topic.snapshot
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
            },
        }

    def _check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        action = arguments["action"]
        if action not in (SUBSCRIBE, PUBLISH):
            raise InvalidMessage("invalid", "action is subscribe or publish")
        try:
            check_subject(arguments["subject"])
            reason = self._reason(arguments["subject"], action, arguments.get("token"))
        except InvalidSubject as error:
            reason = error.reason
        except Refused as error:
            reason = f"{error.code.label}: {error.reason}"
        return {"allowed": not reason, "reason": reason}

    def _reason(self, subject: str, action: str, token: str | None) -> str:
        grants = self._hub.broker.grants
        if not grants.ready:
            return grants.check(grants.principal("", now()), action, subject, now())
        return grants.check(grants.principal(token or "", now()), action, subject, now())

    def _stats(self, arguments: dict[str, Any]) -> dict[str, Any]:
        del arguments
        each = self._statistics.by_worker()
        return {**self._statistics.figures(each), "by_worker": each}

    def _rules_begin(self, arguments: dict[str, Any]) -> dict[str, Any]:
        del arguments
        self._hub.sessions.rights.begin()
        return {}

    def _rules_chunk(self, arguments: dict[str, Any]) -> dict[str, Any]:
        parts = [arguments.get(name) or [] for name in ("rules", "users", "sessions")]
        if any(len(part) > CHUNK_MAX for part in parts):
            raise InvalidMessage("limit", f"at most {CHUNK_MAX} of each in a chunk")
        self._hub.sessions.rights.add(*parts)
        return {}

    def _rules_commit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        generation = int(arguments["generation"])
        self._flush_first()
        self._hub.sessions.rights.commit(generation, now())
        if self._links is not None:
            self._links.rights_replaced()
        log.info("rights of generation %d are in force", generation)
        return {}

    def _rules_diff(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self._flush_first()
        after, generation = arguments["after"], int(arguments["generation"])
        rules, removed, users, sessions = (
            arguments.get(name) or [] for name in ("rules", "removed", "users", "sessions")
        )
        self._hub.sessions.rights.change(after, generation, rules, removed, users, sessions, now())
        if self._links is not None:
            self._links.rights_changed((after, generation, rules, removed, users, sessions))
        return {}

    def _flush_first(self) -> None:
        """What was published before the change goes out under the rights that it was published under."""
        self._hub.broker.flush()
