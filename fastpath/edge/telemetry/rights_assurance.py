"""Whether the rights that are in force follow Django's, as its agents say several times a second (protocol.md 8.17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastpath.core.sessions.revocation import Revocation

from ..runtime.component import ControlPeer, Offers

GONE_SECONDS = 2.0
"""Agents come back sooner from what is no fault: the end of a worker, a connection that is made anew."""

SILENT_SECONDS = 5.0
"""An agent that is connected and has said nothing for so long, while this process ran and could have heard it, does not
follow: its database may not answer."""


class _AgentReport(NamedTuple):
    trouble: str
    triggers_missing: int
    at: float


class Assurance:
    """Notes what each agent that is connected has said last, and since when there is none.

    ``rights`` are those of the node's sessions. ``clock`` tells the seconds that this process has run
    (fastpath/awake.py): what an agent said while it did not waits unread.
    """

    def __init__(self, rights: Revocation, clock: Callable[[], float]) -> None:
        self._rights = rights
        self._clock = clock
        self._told: dict[ControlPeer, _AgentReport] = {}
        self._left_at: float | None = None
        self.offers = Offers(verbs={"rights": self._tell}, figures=self._figures)

    @property
    def trouble(self) -> str:
        """Reason why a right that is taken away may not be seen, in words; empty while one of the agents follows.

        That holds also without an agent: a node works on with the rights that it has.
        """
        moment = self._clock()
        troubles = [
            told.trouble
            if moment - told.at < SILENT_SECONDS
            else f"Django's agent is silent for {moment - told.at:.0f} s"
            for told in self._told.values()
        ]
        return troubles[0] if troubles and all(troubles) else ""

    def warnings(self) -> dict[str, str]:
        """Return what somebody has to put right, by name, though the node serves on; empty when there is nothing."""
        found = {}
        if (text := self._rights.left_out.text()) != "":
            found["rights"] = text
        since = self._alone_since()
        if since is not None and (gone := self._clock() - since) >= GONE_SECONDS:
            found["agent"] = f"no agent of Django is connected, for {gone:.0f} s: changes of rights are not followed"
        return found

    def _alone_since(self) -> float | None:
        """Return since when the last agent is gone; None while there is one, and where there was none."""
        if self._told:
            return None
        if self._left_at is None and self._rights.inherited:
            self._left_at = self._clock()  # it was another process that it spoke with
        return self._left_at

    def _tell(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer the verb ``rights``."""
        told = _AgentReport(
            str(arguments.get("trouble") or ""), int(arguments.get("triggers_missing") or 0), self._clock()
        )
        if peer not in self._told:
            peer.ended.append(lambda: self._leave(peer))
        self._told[peer] = told
        return {}

    def _leave(self, peer: ControlPeer) -> None:
        self._told.pop(peer, None)
        self._left_at = self._clock()

    def _figures(self) -> dict[str, float]:
        """Return figures of agents, and nothing while none has said anything: where Django's rules do not decide, none
        does."""
        left_out = self._rights.left_out
        figures: dict[str, float] = {}
        if self._rights.generation is not None:
            figures |= {"rights_left_out": len(left_out.faults), "rights_left_out_denying": left_out.denying}
        if self._told:
            figures["triggers_missing"] = max(told.triggers_missing for told in self._told.values())
        if self._told or self._alone_since() is not None:
            figures["rights_followed"] = int(bool(self._told) and not self.trouble)
        return figures
