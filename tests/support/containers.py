"""The container files of docs/operate/containers as they are read: the images' stages, the compose file's services."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import yaml

from tests.support.sidecar import ROOT

FOLDER = ROOT / "docs" / "operate" / "containers"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


class Stage(NamedTuple):
    """A part of the Containerfile: what it is made from, and its instructions as (word, rest)."""

    base: str
    steps: list[tuple[str, str]]

    def rest(self, word: str) -> str:
        """What follows the one instruction of this name."""
        (found,) = [rest for one, rest in self.steps if one == word]
        return found

    def command(self, word: str) -> list[str]:
        """CMD or HEALTHCHECK, in the form that needs no shell."""
        found: list[str] = json.loads(self.rest(word)[self.rest(word).index("[") :])
        return found


def stages() -> dict[str, Stage]:
    """Those of the Containerfile in order; an instruction that is not known fails."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(base, [])
        else:
            assert word in {"RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "HEALTHCHECK", "CMD"}, line
            list(found.values())[-1].steps.append((word, rest))
    return found
