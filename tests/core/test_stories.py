"""Stories: transcripts that are specification and regression at once; REWRITE_STORIES=1 writes what happens now."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from fastpath.core.delivery.wire import Wire, terms_of
from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import CaughtUp, Data, Lagging, Subscribe, Subscribed, Unsubscribe
from fastpath.core.protocol.options import OptionRow
from fastpath.core.wires.registry import wire_of
from tests.support.core.lines import JsonLines
from tests.support.core.stage import Actor, Stage

WIRES = {form: wire_of(form) for form in get_args(Form) if wire_of(form).numbered} | {"lines": JsonLines()}
"""Those whose readers see numbers, as the stories tell them, and one that the product does not have."""

SIZES = ("json", "poll", "lines")
"""Those whose pieces have about the sizes that stories with a bound in bytes count on."""

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


def clock(text: str) -> int:
    """Milliseconds of a time of day such as 10:12:40.5."""
    hours, minutes, seconds = text.split(":")
    return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)


class Teller:
    """Runs the lines of one story, with all clients over that wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.stage = Stage()
        self.time: int | None = None
        self.number = 0
        self.closed: set[Actor] = set()

    def tell(self, line: str) -> list[str]:
        """Do what the line says; what every client got, a line each."""
        words = shlex.split(line)
        getattr(self, f"do_{words[0] if words[0] in ('server', 'at', 'publish', 'remove', 'options') else words[1]}")(
            words
        )
        told = []
        for name, actor in self.stage.actors.items():
            told += [f"  {name}: {self.render(actor, one)}" for one in actor.taken()]
            if actor.closed is not None and actor not in self.closed:
                self.closed.add(actor)
                told.append(f"  {name}: closed {actor.closed[0]} {actor.closed[1]}")
        return told

    def do_server(self, words: list[str]) -> None:
        """server standard|guaranteed [no-snapshots] [outbox=BYTES]."""
        options = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        limits = Limits(outbox_bytes_max=int(options.get("outbox", Limits().outbox_bytes_max)))
        self.stage = Stage(limits=limits, guaranteed=words[1] == "guaranteed", snapshots="no-snapshots" not in words)

    def do_at(self, words: list[str]) -> None:
        """at 10:12:40: time passes until then."""
        moment = clock(words[1])
        if self.time is not None:
            self.stage.advance(moment - self.time)
        self.time = moment

    def do_publish(self, words: list[str]) -> None:
        """publish SUBJECT CONTENT [field=value …] [retained=false] [qos=standard]."""
        fields = dict(word.split("=", 1) for word in words[3:])
        options = {"retained": fields.pop("retained", "") != "false", "qos": fields.pop("qos", "guaranteed")}
        outcome = self.stage.publish(words[1], words[2], fields or None, **options)
        assert isinstance(outcome, int), outcome

    def do_remove(self, words: list[str]) -> None:
        """remove SUBJECT [qos=standard]."""
        assert isinstance(self.stage.remove(words[1], **dict(word.split("=", 1) for word in words[2:])), int)

    def do_options(self, words: list[str]) -> None:
        """options PATTERN [cache=MESSAGES] [seconds=SECONDS] [conflation=MS] [retained=on|off] [delivery=QUALITY]: all
        that the pattern says from now on."""
        read: dict[str, Callable[[str], tuple[str, Any]]] = {
            "cache": lambda value: ("cache_messages", int(value)),
            "seconds": lambda value: ("cache_ms", int(value) * 1000),
            "conflation": lambda value: ("conflation_ms", int(value)),
            "retained": lambda value: ("retained", value == "on"),
            "delivery": lambda value: ("delivery", value),
        }
        given = dict(read[name](value) for name, value in (word.split("=") for word in words[2:]))
        rows = [row for row in self.stage.sessions.rights.options.rows if row.pattern != words[1]]
        if given:
            rows.append(OptionRow(1, words[1], **given))
        self.stage.sessions.rights.options.replace(rows)
        self.stage.end()

    def do_enters(self, words: list[str]) -> None:
        """ann enters [batch_ms=MS] [batch_bytes=BYTES] [deflate=BYTES], the last where her wire is a WebSocket."""
        options = {name: int(value) for name, value in (word.split("=") for word in words[2:])}
        deflate, wire = options.get("deflate", 0), self.wire
        if deflate and wire is wire_of(wire.form):
            wire = wire_of(wire.form, 15, deflate)
        terms = terms_of(wire, options.get("batch_ms", 0), options.get("batch_bytes", 1 << 14))
        self.stage.enter(words[0], terms=terms)

    def do_leaves(self, words: list[str]) -> None:
        """ann leaves: the connection is gone, the position is kept as a client library keeps it."""
        actor = self.stage.actors.pop(words[0])
        self.stage.sessions.close(actor.client)

    def do_stalls(self, words: list[str]) -> None:
        """ann stalls: reads nothing."""
        self.stage.actors[words[0]].blocked = True

    def do_reads(self, words: list[str]) -> None:
        """ann reads again."""
        self.stage.actors[words[0]].unblock()
        self.stage.end()

    def do_subscribes(self, words: list[str]) -> None:
        """ann subscribes SUBJECT … [conflation=MS] [history=N] [since=SEQ | since=old] [slow=conflate]."""
        options = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        subjects = [word for word in words[2:] if "=" not in word]
        epoch = self.stage.broker.engine.epoch
        since = {}
        if "since" in options:
            position = (epoch - 1, 1) if options["since"] == "old" else (epoch, int(options["since"]))
            since = dict.fromkeys(subjects, position)
        self.number += 1
        self.stage.actors[words[0]].say(
            Subscribe(
                id=self.number,
                subjects=subjects,
                conflation=int(options.get("conflation", 0)),
                history=int(options.get("history", 0)),
                since=since,
                slow=options.get("slow", "close"),
            )
        )

    def do_resumes(self, words: list[str]) -> None:
        """ann resumes PATTERN [SUBJECT=SEQ …]: again, as a client library does after a reconnection."""
        epoch = self.stage.broker.engine.epoch
        positions = dict(word.rsplit("=", 1) for word in words[3:])
        since = {words[2]: (0, 0)} | {subject: (epoch, int(seq)) for subject, seq in positions.items()}
        self.number += 1
        self.stage.actors[words[0]].say(Subscribe(id=self.number, subjects=[words[2]], since=since))

    def do_unsubscribes(self, words: list[str]) -> None:
        """ann unsubscribes SUBJECT …."""
        self.number += 1
        self.stage.actors[words[0]].say(Unsubscribe(id=self.number, subjects=words[2:]))

    def render(self, actor: object, value: object) -> str:
        """One thing that a client got, in words."""
        if isinstance(value, Data):
            fields = "".join(f" {name}={text}" for name, text in value.fields.items())
            content = value.content or ("removed" if value.meta.removed else "")
            return f"{value.meta.kind or 'update'} {actor.subjects[value.sid]} #{value.seq} {content}{fields}"
        if isinstance(value, Subscribed):
            return "subscribed " + "; ".join(
                f"{one.subject} {one.error} ({one.reason})"
                if one.error
                else f"{one.subject}{f' by {one.pattern}' if one.pattern else ''}"
                f"{f' at #{one.seq}' if one.sid else ''}{' ' + one.recovery if one.recovery else ''}"
                f"{f' every {one.conflation} ms' if one.conflation else ''}"
                for one in value.results
            )
        if isinstance(value, Lagging | CaughtUp):
            told = "lagging" if isinstance(value, Lagging) else "caught up"
            return f"{told} " + " ".join(actor.subjects[sid] for sid in value.sids)
        return type(value).__name__.lower() + " " + " ".join(getattr(value, "subjects", ()))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param(path, name, id=f"{path.stem}-{name}")
        for path in STORIES
        for name in (SIZES if "outbox=" in path.read_text() else WIRES)
    ],
)
def test_story(path: Path, name: str) -> None:
    """What happens is what the story tells, to the letter, whichever wire the clients have."""
    wire = WIRES[name]
    teller = Teller(wire)
    told = []
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            continue
        told.append(line)
        if line and not line.startswith("#"):
            told += teller.tell(line)
    text = "\n".join(told) + "\n"
    if os.environ.get("REWRITE_STORIES") and name == "json":
        path.write_text(text)
    assert path.read_text() == text


def test_there_are_stories() -> None:
    """The folder was found."""
    assert len(STORIES) >= 8
