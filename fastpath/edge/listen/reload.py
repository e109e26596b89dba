"""Read anew, while all connections go on, what an operator may have changed: certificates, keys, who may come."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields
from typing import Any

from ...listen_address import SettingsError
from ...logs.formats import reopen, use_levels
from ...settings import Settings, load
from ..node import messages
from ..runtime.access import LIVE
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime
from .listeners import Ports

ANSWER_SECONDS = 3.0
"""Seconds that the other workers may take before who asked is told that one has not answered."""

log = logging.getLogger("fastpath.reload")


@dataclass(slots=True)
class _Requester:
    """The one who asked on the control socket, and what is known for the answer."""

    peer: ControlPeer
    request: int
    errors: list[str]
    missing: set[int]


class Reloader:
    """SIGHUP, or ``reload`` on the control socket, for one process; the first of several workers asks the others.

    Each part is for itself: one that cannot be used stays as it is, is named in the log and in the answer, and keeps no
    other from taking force.
    """

    def __init__(self, runtime: Runtime, ports: Ports) -> None:
        self._runtime = runtime
        self._ports = ports
        self._others: set[int] = set()
        self._asked: dict[int, _Requester] = {}
        self._number = 0
        self.offers = Offers(
            verbs={"reload": self._ask},
            messages={messages.Reload: self._passed_on, messages.Reloaded: self._answered},
            linked=self._others.add,
            parted=self._parted,
        )
        if "FASTPATH_CONFIG" in os.environ:
            self._settings()  # a worker that is restarted knows what the file said when the parent started

    def here(self) -> list[str]:
        """Reload in this process; return what could not be used, a sentence each."""
        reopen()
        errors = [*self._ports.reload(), *self._settings()]
        for name, reload in self._runtime.reloads.items():
            try:
                reload()
            except (ValueError, OSError) as error:
                errors.append(f"{name}: {error}")
        for text in errors:
            log.error("not reloaded: %s", text)
        log.info("reloaded certificates, keys and settings%s", f", {len(errors)} errors" if errors else "")
        return errors

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Answer the verb ``reload`` when all workers have."""
        del arguments
        errors = self.here()
        if not self._others:
            return {"errors": errors}
        self._number += 1
        self._asked[self._number] = _Requester(peer, peer.request, errors, set(self._others))
        self._runtime.workers.to_others(messages.Reload(self._number))
        self._runtime.loop.call_later(ANSWER_SECONDS, self._answer, self._number)
        return None

    def _passed_on(self, worker: int, asked: messages.Reload) -> None:
        """Reload on another worker: the first one was asked."""
        del worker
        errors = self.here()
        self._runtime.workers.to_first(messages.Reloaded(asked.number, errors))

    def _answered(self, worker: int, reloaded: messages.Reloaded) -> None:
        """Take, on the first worker, what another one could not use."""
        asked = self._asked.get(reloaded.number)
        if asked is None:
            return
        asked.errors += [error for error in reloaded.errors if error not in asked.errors]
        self._spare(reloaded.number, worker)

    def _parted(self, worker: int) -> None:
        """Note that a worker is gone: the one that takes its place reads everything anew."""
        self._others.discard(worker)
        for number in list(self._asked):
            self._spare(number, worker)

    def _spare(self, number: int, worker: int) -> None:
        """Expect nothing more of this worker."""
        asked = self._asked[number]
        asked.missing.discard(worker)
        if not asked.missing:
            self._answer(number)

    def _answer(self, number: int) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        if asked.missing:
            asked.errors.append(f"{len(asked.missing)} of the workers did not answer within {ANSWER_SECONDS:g} s")
        asked.peer.reply(asked.request, {"errors": asked.errors})

    def _settings(self) -> list[str]:
        """Put those settings of the configuration file in force that can change while the process runs."""
        runtime = self._runtime
        try:
            found = load(os.environ)
        except SettingsError as error:
            return [str(error)]
        runtime.access.renew(found)
        use_levels(found.log_level)
        changed = [
            one.name for one in fields(Settings) if getattr(found, one.name) != getattr(runtime.settings, one.name)
        ]
        for name in set(changed) - set(LIVE):
            log.warning("the setting %s changed: it takes force at the next start", name)
        return []
