"""Which node this is, whether clients should be sent to it, and what stands against it: true also without figures."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from ...core.auth.rule_grants import RuleGrants
from ...core.protocol.errors import InvalidMessage
from ...logs.formats import event
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime
from ..workers.heartbeat import Heartbeat
from .rights_assurance import Assurance

ROOM_BYTES_MIN = 1 << 20
"""A disk with less room than that takes no journal."""

LOOK_SECONDS = 2.0
"""Seconds between two looks at the journal's disk."""

DEAF_SECONDS = 10.0
"""A disk that has not said for so long how full it is does not answer."""

VERSION = 1
"""The version of the control socket's protocol."""

log = logging.getLogger("fastpath.health")


class NodeState:
    """The verb ``hello``: what is spoken on the control socket, and which node this is, in which state."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.offers = Offers(verbs={"hello": self._hello})

    def _hello(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer with the server's version; raise InvalidMessage where the peer's ``version`` is another."""
        del peer
        if arguments.get("version", VERSION) != VERSION:
            raise InvalidMessage("invalid", f"this server speaks version {VERSION}")
        runtime, broker = self._runtime, self._runtime.broker
        return {
            "version": VERSION,
            "server": broker.server,
            "pid": os.getpid(),
            "mode": broker.grants.mode,
            "epoch": broker.engine.epoch,
            "generation": runtime.sessions.rights.generation,
            "accepts": "rights" if isinstance(broker.grants, RuleGrants) else "options",
            "options": runtime.sessions.rights.options_told,
            "engine": broker.engine.name,
            "shared": broker.engine.shared,
            "draining": runtime.drain is not None and runtime.drain.active,
            "message_bytes_max": runtime.settings.message_bytes_max,
        }


class Readiness:
    """The answer to a load balancer, over HTTP (http_endpoint.py) and as ``health`` on the control socket."""

    def __init__(self, runtime: Runtime, heartbeat: Heartbeat, assurance: Assurance) -> None:
        self._runtime = runtime
        self._heartbeat = heartbeat
        folder = runtime.broker.engine.folder
        self._disk = Disk(folder) if folder else None
        self._assurance = assurance
        self._told: tuple[str, ...] | None = None
        self._warned = False
        self.warnings = assurance.warnings
        self.offers = Offers(
            verbs={"health": self._answer}, figures=self._disk.figures if self._disk is not None else None
        )
        if not runtime.workers.follows:
            heartbeat.beats.append(self._look)

    def reasons(self) -> dict[str, str]:
        """Return what stands against readiness, by name; empty when the node is ready."""
        runtime, found = self._runtime, {}
        if not runtime.started:
            found["starting"] = "it restores its state, or waits for Redis"
        elif not runtime.broker.grants.ready:
            found["rights"] = "they have not arrived from Django yet"
        elif self._assurance.trouble:
            found["rights"] = self._assurance.trouble
        if runtime.broker.grants.keys is not None and runtime.broker.grants.keys.empty:
            found["keys"] = "those that tokens are checked by have not arrived from their address yet"
        if runtime.stale:
            notice = runtime.sessions.notice
            found["engine"] = notice.text if notice is not None else "who numbers messages is away"
        trouble = runtime.broker.engine.trouble
        if not trouble and self._disk is not None:
            trouble = self._disk.trouble
        if trouble:
            found["journal"] = trouble
        if runtime.drain is not None and runtime.drain.active:
            found["draining"] = "clients are sent elsewhere"
        if runtime.started:
            found |= self._heartbeat.troubles()
        return found

    def _look(self) -> None:
        """Look once a second: the log tells when readiness changes; what stands against it at first is on its way."""
        reasons = self.reasons()
        names = tuple(reasons) if self._told is not None else ()
        if names != (self._told or ()):
            if reasons:
                event(log, "not ready", logging.WARNING, **reasons)
            else:
                event(log, "ready")
        self._told = names
        alone = "agent" in self.warnings()
        if alone and not self._warned:
            event(log, "no agent of Django is connected: changes of rights are not followed", logging.WARNING)
        elif self._warned and not alone:
            event(log, "an agent of Django is connected again")
        self._warned = alone

    def _answer(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer the verb ``health``."""
        del peer, arguments
        reasons, warnings = self.reasons(), self.warnings()
        return {"ready": not reasons, "reasons": reasons} | ({"warnings": warnings} if warnings else {})


class Disk:
    """Looks at a folder's disk every two seconds, in a thread: a disk may not answer at all."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found = ""
        self._figures: dict[str, float] = {}
        self._looked_at = time.monotonic()
        threading.Thread(target=self._look, name="disk", daemon=True).start()

    @property
    def trouble(self) -> str:
        """Reason why the disk would not take a write now, in words; empty when it would."""
        silent = time.monotonic() - self._looked_at
        return f"the journal's disk has not answered for {silent:.0f} s" if silent > DEAF_SECONDS else self._found

    def figures(self) -> dict[str, float]:
        """Return what the disk holds and what is left of it, as it said last."""
        return self._figures

    def _look(self) -> None:
        while True:
            self._found, self._figures = disk_trouble(self._folder), disk_room(self._folder)
            self._looked_at = time.monotonic()
            time.sleep(LOOK_SECONDS)


def disk_trouble(folder: str, room_bytes_min: int = ROOM_BYTES_MIN) -> str:
    """Return why nothing could be written into a folder, in words; empty when it could."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return f"the journal's folder cannot be read: {error.strerror}"
    if status.f_flag & os.ST_RDONLY:
        return "the journal's disk is mounted read-only"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "the journal's folder cannot be written by this user"
    room = status.f_bavail * status.f_frsize
    return f"the journal's disk is full: {room:,} bytes are left" if room < room_bytes_min else ""


def disk_room(folder: str) -> dict[str, float]:
    """Return what a folder's disk holds, and what is left of it for this user, as figures; nothing if it does not
    say."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return {}
    return {
        "journal_disk_bytes": status.f_blocks * status.f_frsize,
        "journal_disk_free_bytes": status.f_bavail * status.f_frsize,
    }
