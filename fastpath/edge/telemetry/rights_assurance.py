"""Whether the rights that are in force follow Django's, as its agents say several times a second (protocol.md 8.17)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ..runtime.component import ControlPeer, Offers

SILENT_SECONDS = 5.0
"""An agent that is connected and has said nothing for so long does not follow: its database may not answer."""


class _Told(NamedTuple):
    trouble: str
    triggers_missing: int
    at: float


class Assurance:
    """Notes what each agent that is connected has said last. One that has gone says nothing: a node works without."""

    def __init__(self) -> None:
        self._told: dict[ControlPeer, _Told] = {}
        self.offers = Offers(verbs={"rights": self._tell}, figures=self._figures)

    @property
    def trouble(self) -> str:
        """Why a right that is taken away may not be seen, in words; empty while one of the agents follows."""
        silent_at = time.monotonic() - SILENT_SECONDS
        troubles = [
            told.trouble if told.at > silent_at else f"Django's agent is silent for {time.monotonic() - told.at:.0f} s"
            for told in self._told.values()
        ]
        return troubles[0] if troubles and all(troubles) else ""

    def _tell(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """The verb ``rights``."""
        told = _Told(str(arguments.get("trouble") or ""), int(arguments.get("triggers_missing") or 0), time.monotonic())
        if peer not in self._told:
            peer.ended.append(lambda: self._told.pop(peer, None) and None)
        self._told[peer] = told
        return {}

    def _figures(self) -> dict[str, float]:
        """Nothing while no agent has said anything: where Django's rules do not decide, none does."""
        if not self._told:
            return {}
        missing = max(told.triggers_missing for told in self._told.values())
        return {"rights_followed": int(not self.trouble), "triggers_missing": missing}
