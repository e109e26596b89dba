"""A journal's engine with a broker and a clock of the test, and what can be said of their state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastpath.core.auth.grants import Grants
from fastpath.core.broker.admission import Outcome
from fastpath.core.broker.broker import Broker
from fastpath.core.broker.ports import EnginePort
from fastpath.core.cache.snapshot import Snapshot
from fastpath.core.delivery.audience import Topic
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message
from fastpath.engine.journal import engine as journal
from fastpath.engine.journal.checkpoint import BaseWriter
from fastpath.engine.journal.engine import JournalEngine
from fastpath.engine.memory import MemoryEngine

START = 1_700_000_000_000


def broker_of(engine: EnginePort, now: int = START, limits: Limits | None = None) -> Broker:
    """A broker in which everybody may do everything."""
    own = MemoryEngine(now)
    return Broker(engine, Grants(), limits or Limits(), server="s", started=now, secret=b"s" * 32, own=own)


class Node:
    """One life of a node whose journal is in ``folder``; it ends with ``crash``, or in order with ``stop``."""

    def __init__(self, folder: Path, now: int = START, *, limits: Limits | None = None, **options: Any) -> None:
        self.now = now
        self.engine = JournalEngine(str(folder), clock=lambda: self.now, **({"batch": False} | options))
        self.broker = broker_of(self.engine, now, limits)
        try:
            self.engine.restore()
        except BaseException:
            self.engine._folder.close()
            raise

    def publish(self, *messages: Message) -> list[Outcome]:
        """Publish them in one step; their outcomes."""
        told: list[Outcome] = []
        self.broker.publish(None, messages, self.now, told.extend)
        return told

    def send(self, subject: str, content: str = "", fields: dict[str, str] | None = None, **more: Any) -> list[Outcome]:
        """Publish one message."""
        return self.publish(Message(subject, content, dict(fields) if fields else None, **more))

    def topic(self, subject: str) -> Topic:
        return self.broker.interest.topics[subject]

    def since(self, subject: str, epoch: int, seq: int) -> list[Any] | None:
        """The contents that a client at this position is given; None: it is told that it may have missed some."""
        topic = self.broker.interest.topics.get(subject)
        if topic is None:
            return None
        missed = self.broker.history.since(topic, epoch, seq)
        return None if missed is None else [message.content for message in missed]

    def state(self) -> dict[str, Any]:
        """Where every subject stands, with what is cached of it."""
        return {
            topic.subject: (
                (topic.epoch, topic.seq),
                self.engine._sequences.get(topic.subject),
                [seen(message) for message in topic.ring or ()],
                snapshot(topic.snapshot),
            )
            for topic in self.broker.interest.topics.values()
        }

    def begin_base(self) -> BaseWriter:
        """A base, to be written by the test; from now on a new segment is written."""
        return self.engine._begin_base()

    @property
    def file(self) -> Path:
        """The segment that is written."""
        assert self.engine._file is not None
        return self.engine._file.path

    def crash(self) -> None:
        """As when the process is killed: nothing more is written."""
        if self.engine._file is not None:
            self.engine._file.close()
        self.engine._syncs._pool.shutdown()
        self.engine._upkeep._pool.shutdown()
        self.engine._folder.close()

    def vanish(self) -> None:
        """As if this life had not been."""
        self.crash()
        self.file.unlink()

    def stop(self) -> None:
        """In order."""
        self.engine.close()


def seen(message: Message) -> tuple[Any, ...]:
    """All that matters of a message."""
    return tuple(getattr(message, name) for name in Message.__struct_fields__ if name != "meta")


def snapshot(one: Snapshot | None) -> Any:
    """All that matters of a snapshot."""
    return None if one is None else (seen(one.newest), one.fields)


def rebooted(monkeypatch: Any) -> None:
    """From now on the machine has been started anew."""
    monkeypatch.setattr(journal, "boot_id", lambda: os.urandom(4).hex())
