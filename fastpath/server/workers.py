"""One process per core behind the same ports: starts the workers, restarts one that ends, leaves nothing behind.

With one worker there is no parent: the process that was started serves. With more, it only watches. The workers are
forked before any loop exists, so that they share the memory of the program; a worker that finds its parent gone ends.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..edge.listen.addresses import bind_unix, reserve
from ..edge.listen.control_socket import check_control
from ..edge.listen.tls_context import tls_context
from ..edge.workers.drain import HEAR_SECONDS
from ..listen_address import Listener, SettingsError
from ..logs import formats
from ..settings import Settings, load
from . import app as server
from . import privileges, systemd
from .components import Worker
from .hangs import LOOK_SECONDS
from .watchdog import BEAT, Watchdog

BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 10.0
"""A worker that ends is restarted at once; one that ends again and again after a pause that doubles."""

STEADY_SECONDS = 10.0
"""A worker that served so long was a good one: its end is followed by a restart at once."""

KILL_SECONDS = HEAR_SECONDS + 3
"""Seconds that the workers may take to stop, once their clients have been sent elsewhere, before they are killed."""

_SIGNALS = {getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)}

ORPHANS_SECONDS = 1.0
"""Seconds to wait for a port that is in use."""

UNIX_PATH_MAX = 100
"""A unix socket's path has room for little more."""

log = logging.getLogger("fastpath.workers")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises SettingsError when a port cannot be opened."""
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read anew
    count = workers_of(settings)
    formats.begin_simply(settings)
    faulthandler.enable()  # where a crash in C was is told on the standard error
    server.preload(settings)
    privileges.drop(settings)
    if count == 1:
        server.run(settings)
    else:
        _Parent(settings, count).run()


def workers_of(settings: Settings) -> int:
    """Return how many processes the settings ask for on this machine."""
    if not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"):
        return 1
    if settings.workers:
        return settings.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerPlace:
    """A worker's place, and the process that fills it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.report = -1
        self.line = b""
        self.serves = False
        self.started = 0.0
        self.pause = 0.0
        self.start_at: float | None = 0.0


class _Parent:
    def __init__(self, settings: Settings, count: int) -> None:
        self._settings = settings
        self._places = [_WorkerPlace(number) for number in range(count)]
        self._listeners: list[Listener] = []
        self._held: list[socket.socket] = []
        self._unix: dict[str, socket.socket] = {}
        self._folder = ""
        self._links: socket.socket | None = None
        self._wake: tuple[int, int] = (-1, -1)
        self._alive: tuple[int, int] = (-1, -1)  # nothing is ever written: the workers see the end of it
        self._ready: dict[str, Any] = {}
        self._announced = False
        self._stopping = False
        self._told_count = 0
        self._reload = False
        self._watchdog = Watchdog(settings.hang_seconds)

    def run(self) -> None:
        formats.begin(self._settings, "parent", "parent")
        try:
            self._open()
            while not self._stopping:
                self._start_due()
                self._wait(self._next_start())
                self._reap()
                self._announce()
                self._watch()
                if self._reload:
                    self._reload = False
                    self._read_anew()
            self._stop()
        finally:
            self._kill()
            for sock in (*self._held, *self._unix.values()):
                sock.close()
            for path in self._unix:
                with suppress(OSError):
                    os.unlink(path)
            if self._links is not None:
                self._links.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> None:
        # What can be seen to be wrong is told before anything starts.
        if self._settings.control:
            check_control(self._settings.control)
        for listener in self._settings.listeners:
            if listener.tls:
                tls_context(listener)
            if listener.path:
                self._unix[listener.path] = bind_unix(listener)
                self._listeners.append(listener)
                continue
            real, held = self._reserve(listener)
            self._listeners.append(real)
            self._held += held
        self._folder = tempfile.mkdtemp(prefix="fastpath-")  # for this user alone
        if len(self._links_path) > UNIX_PATH_MAX:
            os.rmdir(self._folder)
            self._folder = tempfile.mkdtemp(prefix="fastpath-", dir="/tmp")
        self._links = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._links.bind(self._links_path)
        self._links.listen(len(self._places))
        self._wake, self._alive = os.pipe(), os.pipe()
        for descriptor in self._wake:
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)
        signal.signal(signal.SIGHUP, self._told_to_reload)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        server.preload(self._settings)
        gc.collect()
        gc.freeze()  # a collection would write to every object, and so copy the pages that the workers share

    def _reserve(self, listener: Listener) -> tuple[Listener, list[socket.socket]]:
        """Open a listener; the workers of a parent that was killed let go of their ports in a moment."""
        deadline = time.monotonic() + ORPHANS_SECONDS
        while True:
            try:
                return reserve(listener, self._settings)
            except SettingsError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(ORPHANS_SECONDS / 20)

    @property
    def _links_path(self) -> str:
        return str(Path(self._folder) / "links")

    def _told(self, *_: Any) -> None:
        self._stopping = True
        self._told_count += 1

    def _told_to_reload(self, *_: Any) -> None:
        self._reload = True

    # Starting

    def _start_due(self) -> None:
        moment = time.monotonic()
        for place in self._places:
            if place.start_at is not None and place.start_at <= moment:
                place.start_at = None
                self._start(place)

    def _start(self, place: _WorkerPlace) -> None:
        survivors = sum(other.serves for other in self._places if other is not place)
        reading, writing = os.pipe()
        place.started = time.monotonic()
        # A signal that came before the new process has its own handlers would be taken for one of ours, and be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        formats.pause()
        pid = os.fork()
        if pid:
            formats.resume()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if pid == 0:
            os.close(reading)
            self._become(place.number, survivors if place.number == 0 else 0, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        place.pid, place.report, place.line, place.serves = pid, reading, b"", False
        log.info("worker %d started, pid %d", place.number, pid)

    def _become(self, number: int, survivors: int, report: int) -> None:
        """Be that worker in the new process, and never return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(name, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it reads everything as it starts
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            for descriptor in (*self._wake, self._alive[1], *(place.report for place in self._places)):
                if descriptor >= 0:
                    os.close(descriptor)
            for sock in self._held:
                sock.close()
            assert self._links is not None
            if number:
                self._links.close()
            worker = Worker(
                number,
                self._listeners,
                self._unix,
                self._links_path,
                None if number else self._links,
                survivors,
                len(self._places),
                self._alive[0],
                report,
            )
            server.run_worker(self._settings, worker)
            status = 0
        except SettingsError as error:
            with suppress(OSError):
                os.write(report, json.dumps({"error": str(error)}).encode() + b"\n")
            status = 2
        except server.Cut:
            pass
        except BaseException:
            log.exception("worker %d failed", number)
        finally:
            formats.end()
            sys.stderr.flush()
            os._exit(status)

    def _next_start(self) -> float | None:
        """Return the seconds until a worker is to be started, or until the next look at those that serve; None: no one
        waits."""
        times = [place.start_at for place in self._places if place.start_at is not None]
        pause = max(0.0, min(times) - time.monotonic()) if times else None
        if self._watchdog.watches:
            return LOOK_SECONDS if pause is None else min(pause, LOOK_SECONDS)
        return pause

    # Watching

    def _wait(self, seconds: float | None) -> None:
        """Wait until a signal came, a worker reported, or the time is over."""
        waiter = select.poll()
        waiter.register(self._wake[0], select.POLLIN)
        for place in self._places:
            if place.report >= 0:
                waiter.register(place.report, select.POLLIN)
        for descriptor, _ in waiter.poll(None if seconds is None else seconds * 1000 + 1):
            if descriptor == self._wake[0]:
                with suppress(BlockingIOError):
                    os.read(descriptor, 4096)
            for place in self._places:
                if place.report == descriptor:
                    self._heard(place)

    def _heard(self, place: _WorkerPlace) -> None:
        data = os.read(place.report, 65536)
        if not data:  # it has ended, maybe before it served
            os.close(place.report)
            place.report = -1
            return
        if place.serves:
            self._watchdog.hear(place.number, data)
            return
        place.line += data
        if b"\n" not in place.line:
            return
        answer = json.loads(place.line.partition(b"\n")[0].strip(BEAT))
        if "error" in answer:
            if not self._announced:
                raise SettingsError(answer["error"])
            log.error("worker %d: %s", place.number, answer["error"])
            return
        place.serves = True
        self._watchdog.begin(place.number, place.pid)
        if place.number == 0:
            self._ready = answer

    def _watch(self) -> None:
        """Kill a worker that serves and hangs; the rest of its place's life goes on as after any other end."""
        self._watchdog.look(lambda: self._wait(0))
        if self._announced:
            systemd.tell("WATCHDOG=1")

    def _read_anew(self) -> None:
        """Read anew what may have changed: this process' log levels here, everything else in the workers."""
        formats.reopen()
        with suppress(SettingsError):  # a worker says what is wrong
            formats.use_levels(load(os.environ).log_level)
        self._signal(signal.SIGHUP)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for place in self._places:
                if place.pid == pid:
                    self._ended(place, os.waitstatus_to_exitcode(status))

    def _ended(self, place: _WorkerPlace, status: int) -> None:
        if place.report >= 0:
            self._heard(place)
        if place.report >= 0:
            os.close(place.report)
            place.report = -1
        pid, place.pid, place.serves = place.pid, 0, False
        self._watchdog.end(place.number)
        lived = time.monotonic() - place.started
        pause = 0.0 if lived >= STEADY_SECONDS else place.pause
        place.pause = min(BACKOFF_SECONDS_MAX, pause * 2 or BACKOFF_SECONDS_MIN)
        place.start_at = time.monotonic() + pause
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        if not self._stopping:
            after = f"in {pause:g} s" if pause else "at once"
            log.error("worker %d, pid %d, ended %s; restarting it %s", place.number, pid, how, after)

    def _announce(self) -> None:
        """Announce once that all workers serve."""
        if not self._announced and self._ready and all(place.serves for place in self._places):
            self._announced = True
            line = self._ready | {"pid": os.getpid(), "workers": [place.pid for place in self._places]}
            print("ready " + json.dumps(line), flush=True)
            systemd.tell("READY=1")

    # Ending

    def _stop(self) -> None:
        log.info("stopping %d workers", len(self._places))
        systemd.tell("STOPPING=1")
        self._signal(signal.SIGTERM)
        passed_on = 1
        # A worker that sends its clients elsewhere takes that long; told again, it makes short work of it.
        deadline = time.monotonic() + self._settings.drain_seconds + KILL_SECONDS
        while any(place.pid for place in self._places) and time.monotonic() < deadline:
            self._wait(min(max(0.0, deadline - time.monotonic()), LOOK_SECONDS))
            self._reap()
            systemd.tell("WATCHDOG=1")  # who is sent elsewhere may take longer than systemd waits for a sign of life
            if self._told_count > passed_on:
                passed_on = self._told_count
                self._signal(signal.SIGTERM)

    def _kill(self) -> None:
        """Kill the workers that are left."""
        self._signal(signal.SIGKILL)
        for place in self._places:
            if place.pid:
                with suppress(ChildProcessError):
                    os.waitpid(place.pid, 0)

    def _signal(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.pid:
                with suppress(ProcessLookupError):
                    os.kill(place.pid, number)
