"""Which rights were used, by the rules that `manage.py entitlement_rules export` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import NAMES, USER_ID, check_pattern, covers

if TYPE_CHECKING:
    import pyarrow as pa

EVERYONE, ANONYMOUS = "everyone", "anonymous"


class InvalidRules(ValueError):
    """A file is no export of rules, or no file of members; the text says why."""


@dataclass(frozen=True)
class Rule:
    """A rule, as a line of the export has it; `number` is its place in the file, from 1."""

    number: int
    who: str
    pattern: str
    action: str
    effect: str


def load(path: Path) -> list[Rule]:
    """Return the rules of a JSON export that are enabled; raise InvalidRules and OSError."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        rules = [
            Rule(number, row["who"], row["pattern"], row.get("action", "subscribe"), row.get("effect", "allow"))
            for number, row in enumerate(rows, 1)
            if row.get("enabled", True)
        ]
        for rule in rules:
            check_pattern(rule.pattern)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSubject) as error:
        raise InvalidRules(f"{path} is no JSON of manage.py entitlement_rules export: {error}") from None
    return rules


def load_members(path: Path) -> dict[str, frozenset[str]]:
    """Return the users of each group, of a file `{"group": ["user", …], …}`; raise InvalidRules and OSError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(group): frozenset(map(str, users)) for group, users in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRules(f'{path} is no {{"group": ["user", …], …}}: {error}') from None


class Uses:
    """Finds the rules that a use falls under; it travels to the executors.

    Without `members` a rule for a group holds for every user: then one that is told to be unused surely is. The audit
    tells names and no ids, so `{user_id}` may be any id.
    """

    def __init__(self, rules: Iterable[Rule], members: Mapping[str, frozenset[str]] | None = None) -> None:
        self._members = members
        self._by: dict[tuple[str, str], dict[str, list[Rule]]] = {}
        for rule in rules:
            first = rule.pattern.split("/")[1]
            self._by.setdefault((rule.action, rule.effect), {}).setdefault(first, []).append(rule)

    def of(self, user: str, subject: str, action: str, effect: str) -> Iterator[int]:
        """Yield the numbers of the rules that say something about this user, subject, action and effect."""
        by = self._by.get((action, effect), {})
        segments = subject.split("/")[1:]
        for first in dict.fromkeys((segments[0], "*", "**", *NAMES)):
            for rule in by.get(first, ()):
                if _covers(rule, segments, user) and self._holds(rule.who, user):
                    yield rule.number

    def match(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Match, for `DataFrame.mapInArrow`, uses with `user`, `subject`, `action`, `effect` to one row a rule,
        `number` and the use's `n` and `last`."""
        import pyarrow as pa  # noqa: PLC0415 - only executors need it

        for batch in batches:
            found = [
                (number, row["n"], row["last"], row["user"])
                for row in batch.to_pylist()
                for number in self.of(row["user"], row["subject"], row["action"], row["effect"])
            ]
            columns = list(zip(*found, strict=True)) or [(), (), (), ()]
            types = (pa.int32(), pa.int64(), batch.schema.field("last").type, pa.string())
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, ["number", "n", "last", "user"])

    def _holds(self, who: str, user: str) -> bool:
        kind, _, name = who.partition(":")
        if kind == "group":
            return bool(user) if self._members is None else user in self._members.get(name, ())
        return who == EVERYONE or (not user if who == ANONYMOUS else kind == "user" and name == user)


def _covers(rule: Rule, segments: list[str], user: str) -> bool:
    """Return True if the rule's pattern covers the subject for this user; of nobody, a deny covers whatever name is
    there."""
    wanted = rule.pattern[1:].split("/")
    if not user and rule.effect == "allow" and not {*NAMES}.isdisjoint(wanted):
        return False
    unknown = (USER_ID,) if user else NAMES
    return covers(["*" if segment in unknown else segment for segment in wanted], segments, user)
