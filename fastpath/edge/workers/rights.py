"""The verbs ``rules_begin``, ``rules_chunk``, ``rules_commit``, ``rules_diff``: Django brings the rights of a node."""

from __future__ import annotations

import logging
from typing import Any

from ...core.auth.rule_grants import RuleGrants
from ...core.broker.rights_records import NAMED_MAX, Fault
from ...core.protocol.errors import InvalidMessage
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime, now
from .leader import Links

CHUNK_MAX = 1000
"""Rules, users, sessions and rows of options in one rules_chunk: bounds the work of one tick."""

log = logging.getLogger("fastpath.control")


class BroughtRights:
    """Puts them in force here, and has the other workers do the same by way of ``links``, where there are any."""

    def __init__(self, runtime: Runtime, links: Links | None) -> None:
        self._runtime = runtime
        self._links = links
        self._rights = runtime.sessions.rights
        self.offers = Offers(
            verbs={
                "rules_begin": self._begin,
                "rules_chunk": self._chunk,
                "rules_commit": self._commit,
                "rules_diff": self._change,
            }
        )

    def _begin(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Begin a full set of rights."""
        del peer, arguments
        self._rights.begin()
        return {}

    def _chunk(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take a part of the full set."""
        del peer
        rules, users, sessions = (arguments.get(name) or [] for name in ("rules", "users", "sessions"))
        options = arguments.get("options")
        if any(len(part) > CHUNK_MAX for part in (rules, users, sessions, options or [])):
            raise InvalidMessage("limit", f"at most {CHUNK_MAX} of each in a chunk")
        self._rights.add(rules, users, sessions, options)
        return {}

    def _commit(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Put the full set in force, which is whole."""
        del peer
        generation = int(arguments["generation"])
        left_out = self._rights.commit(generation, now())
        if self._links is not None:
            self._links.rights_replaced()
        self._runtime.follow_publishers()
        what = "rights" if isinstance(self._runtime.broker.grants, RuleGrants) else "options"
        log.info("%s of generation %d are in force", what, generation)
        _log_left_out(left_out)
        return {}

    def _change(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take what has changed since a generation."""
        del peer
        after, generation = arguments["after"], int(arguments["generation"])
        rules, removed, users, sessions = (
            arguments.get(name) or [] for name in ("rules", "removed", "users", "sessions")
        )
        options = arguments.get("options")
        left_out = self._rights.change(
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
