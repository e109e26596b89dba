"""Keep the nodes' rights as the database has them: the full set once, then every difference within a second.

The agent is the only part of Django that the sidecar depends on, so it gives up on nothing: a sidecar that is
away, another one in its place, a database that does not answer are logged once and tried again until they are there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from django.db import Error as DatabaseFailure
from django.db import ProgrammingError, connections, router

from entitlement.following import compiler, mariadb
from entitlement.following.polling import LATE_SECONDS, Poll
from entitlement.models import Rule
from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.client.errors import ControlRefused, SidecarUnavailable

POLL_SECONDS = 0.2
"""Seconds between two looks at which process the sidecar is, what it holds, and at the generation row."""

MORE_SECONDS = 0.01
"""The same while there is more than could be sent at once: other threads have their turn."""

BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 0.5

UPKEEP_SECONDS = 60.0
"""Seconds after which the database connection is renewed (it may be another file now)."""

RESTART_SECONDS = 1.0
"""The pause before an agent that failed in a way that it does not know is started again."""

JOIN_SECONDS = 1.0
"""Seconds that stopping agents may take; one may be waiting for a node that does not answer."""

FORGET_SECONDS = 3600.0
"""Seconds between deletions of changes that no living token can contradict."""

FORGET_MORE_SECONDS = 1.0
"""The same while there may be more of them than are deleted at once."""

_log = logging.getLogger("entitlement.agent")


def follow(addresses: Sequence[str], stop_event: threading.Event) -> None:
    """Keep all nodes up to date until told to stop, each by an agent of its own: one that is away delays no other."""
    poll = Poll(stop_event)
    threads = [
        threading.Thread(target=_keep_following, args=(address, stop_event, poll), name=f"agent {number}", daemon=True)
        for number, address in enumerate(addresses)
    ]
    threads.append(threading.Thread(target=poll.run, name="poll", daemon=True))
    for thread in threads:
        thread.start()
    stop_event.wait()
    for thread in threads:
        thread.join(JOIN_SECONDS)


def _keep_following(address: str, stop_event: threading.Event, poll: Poll) -> None:
    """Run an agent, and another one after a fault that the agent does not know of: the rights must not stay as they
    are."""
    poll.began.wait(LATE_SECONDS)
    while not stop_event.is_set():
        try:
            Agent(address, stop_event, poll).run()
        except Exception:
            _log.exception("the agent of %s failed; starting it again", label(address))
            stop_event.wait(RESTART_SECONDS)


class Agent:
    """Follows one database into one sidecar; ``run`` returns when the stop event is set."""

    def __init__(self, control_path: str, stop_event: threading.Event, poll: Poll) -> None:
        self._control = Control(control_path)
        self._label = label(control_path)
        self._stop = stop_event
        self._poll = poll
        self._database = connections[router.db_for_write(Rule)].alias
        self._server = ""
        self._needed = self._options_alone = False
        self._sent: int | None = None
        self._ahead = 0
        self._has_more = False
        self._upkeep_at = 0.0
        self._forget_at = time.monotonic() + UPKEEP_SECONDS
        self._trouble = ""
        self._done_at = time.monotonic()
        self._deaf = ""

    def run(self) -> None:
        """Follow until told to stop."""
        backoff = BACKOFF_SECONDS_MIN
        try:
            while not self._stop.is_set():
                if self._attempt():
                    backoff = BACKOFF_SECONDS_MIN
                    self._stop.wait(MORE_SECONDS if self._has_more else POLL_SECONDS)
                else:
                    self._stop.wait(backoff)
                    backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)
        finally:
            self._control.close()
            connections[self._database].close()

    def _attempt(self) -> bool:
        """Run a round; False when something is in the way, which is logged when it is new."""
        try:
            self._round()
        except SidecarUnavailable as error:
            self._lost()
            self._report(f"the sidecar cannot be reached: {error}")
        except ControlRefused as error:
            self._lost()
            self._report(f"the sidecar at {self._label} refuses the rights: {error}")
        except DatabaseFailure as error:
            self._report(f"the database cannot be read: {error}")
            connections[self._database].close()
        except Exception as error:  # a fault of ours must not leave the sidecar without changes for ever
            self._lost()
            connections[self._database].close()
            if self._report(f"the agent failed: {error!r}"):
                _log.exception("the agent failed")
        else:
            self._report("")
            self._done_at = time.monotonic()
            return True
        return False

    def _round(self) -> None:
        """Greet the sidecar, then send what is new."""
        hello = self._control.hello()
        has_rules = hello["mode"] == "rules"
        self._options_alone = not has_rules
        self._needed = has_rules or hello.get("accepts") == "options"  # an older one takes nothing in other modes
        if has_rules:
            self._tell(hello["server"])
        self._greet(hello)
        now = time.monotonic()
        if now >= self._upkeep_at:
            connections[self._database].close()
            self._upkeep_at = now + UPKEEP_SECONDS
        if now >= self._forget_at:
            has_more = compiler.forget() >= mariadb.AT_ONCE
            self._forget_at = now + (FORGET_MORE_SECONDS if has_more else FORGET_SECONDS)
        if self._needed:
            if self._sent is not None and hello.get("options") is False:
                self._send_options(self._sent)
            self._send()

    def _tell(self, server: str) -> None:
        """Say whether changes are followed: before the database is asked, which may not answer."""
        if self._deaf == server:
            return
        late = time.monotonic() - self._done_at > LATE_SECONDS
        try:
            self._control.rights(self._poll.trouble() or (self._trouble if late else ""), self._poll.missing)
        except ControlRefused:  # it is of a version that does not know the verb
            self._deaf = server

    def _greet(self, hello: dict[str, Any]) -> None:
        """Learn which process answers and what it holds; another one, or another's set, starts from nothing."""
        server, held = hello["server"], hello.get("generation")
        if server == self._server and held == self._sent:
            return
        if server != self._server:
            _log.info(
                "connected to sidecar %s at %s (pid %s, mode %s)", server, self._label, hello["pid"], hello["mode"]
            )
        at = compiler.position()
        self._server = server
        self._sent = held if at is not None and held == at.generation else None

    def _send(self) -> None:
        """Bring the sidecar to the database's generation, or nearer to it; by a difference if it is known."""
        at = compiler.position()
        if at is None:
            raise ProgrammingError("the generation row is missing; run migrate")
        self._has_more = at.has_more
        if at.generation == self._sent:
            return
        # A lower generation is that of another database, or of an older state of it.
        if self._sent is None or not at.forgotten <= self._sent < at.generation:
            self._send_all(at.generation)
            return
        if self._options_alone:
            records = compiler.options_difference(self._sent, at.generation)
        else:
            records = compiler.next_difference(self._sent, at.generation, self._ahead)
        if records.largest() > compiler.CHUNK:
            self._send_all(at.generation)
            return
        try:
            self._control.rules_diff(
                after=self._sent,
                generation=records.generation,
                rules=records.rules,
                removed=records.removed,
                users=records.users,
                sessions=records.sessions,
                options=records.options,
            )
        except ControlRefused as error:
            if error.code != "stale":
                raise
            self._send_all(at.generation)
        else:
            self._sent, self._ahead = records.generation, at.generation
            self._has_more |= self._sent < at.generation

    def _send_options(self, generation: int) -> None:
        """Add the options that the sidecar lacks: its set came from an agent of a version that knows of none."""
        try:
            self._control.rules_diff(after=generation, generation=generation, options=compiler.option_records())
        except ControlRefused as error:
            if error.code != "stale":
                raise
            self._lost()  # there is another set since

    def _send_all(self, generation: int) -> None:
        records = (compiler.options_set if self._options_alone else compiler.full_set)(generation)
        self._control.rules_begin(generation)
        for chunk in records.chunks():
            self._control.rules_chunk(**chunk)
        self._control.rules_commit(generation)
        self._sent = self._ahead = generation
        _log.info(
            "sent all %d rules, %d options, %d changed users and %d revoked sessions, generation %d, to %s",
            len(records.rules),
            len(records.options or ()),
            len(records.users),
            len(records.sessions),
            generation,
            self._label,
        )

    def _lost(self) -> None:
        """Forget the sidecar, of which nothing is known any more: greet it first."""
        self._sent = None
        self._server = ""
        self._done_at = time.monotonic()

    def _report(self, trouble: str) -> bool:
        """Log what is in the way when it is new, and once that it is gone; whether it was new."""
        if trouble == self._trouble:
            return False
        self._trouble = trouble
        if trouble:
            _log.warning("%s; trying again", trouble)
        else:
            _log.info("the rights at %s are up to date again", self._label)
        return True
