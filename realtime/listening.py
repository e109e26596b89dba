"""Listeners: classes of the project that are told what happens in the sidecar, off its data path.

docs/operate/audit.md explains it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from django.utils.module_loading import import_string

from fastpath.client.control.nodes import label
from fastpath.client.control.pushes import Pushes
from fastpath.client.errors import ClientError, ControlRefused
from realtime.conf import conf

KINDS = ("access", "message", "cache", "statistics")

WAITING_MAX = 100
"""Packets, each of at most 500 events, that may wait for a listener; then no more is read, and the sidecar drops and
counts what comes."""

RETRY_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 0.5
"""Seconds that the end may go unnoticed."""

log = logging.getLogger("realtime.listening")

Event = dict[str, Any]


class Listener:
    """Base of the classes that ``REALTIME["LISTENERS"]`` names; one instance of each gets the events of all nodes.

    ``kinds`` says which: ``access``, ``message``, ``cache``, ``statistics``. Its methods are called from one thread, in
    the order in which a node's events happened. An exception is logged, and the next event comes all the same.
    """

    kinds: ClassVar[Sequence[str]] = ("access",)

    def event(self, event: Event) -> None:
        """Take an event of any kind, with the keys of docs/operate/audit.md; call the method of its kind."""
        getattr(self, event["kind"])(event)

    def access(self, event: Event) -> None:
        """Hear that somebody came, went, was let in or refused."""

    def message(self, event: Event) -> None:
        """Hear that something was published."""

    def cache(self, event: Event) -> None:
        """Hear that messages were cached, read or deleted."""

    def statistics(self, event: Event) -> None:
        """Hear the figures of a worker, and the statistics over 12 windows, each minute."""

    def dropped(self, node: str, count: int) -> None:
        """Hear that so many events of the node, by its control address, could not be told: there were too many for this
        listener."""
        log.warning("%s missed %d events of %s", type(self).__name__, count, node)


def listeners() -> list[Listener]:
    """Make a listener of each class of the settings; raises ImproperlyConfigured for what is none."""
    found = []
    for path in conf.listeners:
        try:
            listener = import_string(path)()
        except (ImportError, TypeError) as error:
            raise ImproperlyConfigured(f'REALTIME["LISTENERS"]: {path}: {error}') from error
        if not isinstance(listener, Listener):
            raise ImproperlyConfigured(f'REALTIME["LISTENERS"]: {path} is no subclass of realtime.listening.Listener.')
        if not listener.kinds or not set(listener.kinds) <= set(KINDS):
            raise ImproperlyConfigured(
                f'REALTIME["LISTENERS"]: {path}: kinds is a list of {", ".join(KINDS)}, and not empty.'
            )
        found.append(listener)
    return found


def start(addresses: Iterable[str], stop: threading.Event) -> list[threading.Thread]:
    """Have the listeners of the settings listen to these nodes until ``stop`` is set; the threads that do.

    Each has its own connections and threads: one that is slow misses events (``dropped``), the others do not notice.
    """
    threads = []
    for listener in listeners():
        name = type(listener).__name__
        waiting: queue.Queue[tuple[str, Event]] = queue.Queue(WAITING_MAX)
        threads.append(threading.Thread(target=_tell, args=(listener, waiting, stop), name=f"{name} listens"))
        for address in addresses:
            threads.append(
                threading.Thread(
                    target=_listen,
                    args=(listener.kinds, address, waiting, stop),
                    name=f"{name} {label(address)}",
                    daemon=True,
                )
            )
    for thread in threads:
        thread.start()
    return threads


def _listen(kinds: Sequence[str], address: str, waiting: queue.Queue[tuple[str, Event]], stop: threading.Event) -> None:
    """Take events from a node for as long as it is there, and again when it is back."""
    away = False
    while not stop.is_set():
        try:
            pushes = Pushes(address, _ANSWER_SECONDS)
            try:
                pushes.ask("listen", {"kinds": list(kinds)})
                log.info("listening to %s%s", label(address), ", again" if away else "")
                away = False
                while not stop.is_set():
                    for name, content in pushes.read(_LOOK_SECONDS):
                        if name == "events":
                            _put(waiting, (label(address), content), stop)
            finally:
                pushes.close()
        except (ClientError, OSError, ValueError) as error:
            if not away:
                log.warning("the node %s tells nothing: %s; trying again", label(address), error)
            away = True
            stop.wait(RETRY_SECONDS if not isinstance(error, ControlRefused) else 10 * RETRY_SECONDS)


def _put(waiting: queue.Queue[tuple[str, Event]], packet: tuple[str, Event], stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(queue.Full):
            waiting.put(packet, timeout=_LOOK_SECONDS)
            return


def _tell(listener: Listener, waiting: queue.Queue[tuple[str, Event]], stop: threading.Event) -> None:
    """Hand the events on, one after the other."""
    while not stop.is_set():
        try:
            node, content = waiting.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue
        close_old_connections()
        if content.get("dropped"):
            _call(listener.dropped, node, int(content["dropped"]))
        for event in content["events"]:
            if stop.is_set():
                break
            _call(listener.event, event)
        close_old_connections()


def _call(method: Any, *arguments: Any) -> None:
    started = time.monotonic()
    try:
        method(*arguments)
    except Exception:
        log.exception("a listener failed")
    if (seconds := time.monotonic() - started) > 1:
        log.warning("a listener took %.1f s for one event", seconds)
