"""What a release depends on, as CycloneDX 1.6 in JSON: each pinned package that the product installs.

cyclonedx-py of CycloneDX writes such a document of an environment, the tests' packages and all; this one is of what the
product needs, and needs nothing for it. The list is that of pyproject.toml and of what its packages bring along, as
their own metadata says; versions, licences and edges are those of the packages that are installed here, which have to
be those that are pinned.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NAMESPACE = uuid.UUID("5f2c35a3-9d5e-4e0f-8a55-6a4b8f0f7c11")
"""Namespace of the serial numbers of these documents: the same content has the same one."""
SHORT = 60
"""A licence in more characters than that is its text, and no name."""


class Mismatch(Exception):
    """The difference of what is installed and what is pinned: nothing can be said of a release from here."""


def pins(*files: str) -> dict[str, str]:
    """Return the versions in files of requirements, by canonical name; markers are not looked at."""
    found = {}
    for file in files:
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            text = line.partition("#")[0].strip()
            if "==" in text:
                requirement = Requirement(text)
                (only,) = requirement.specifier
                found[canonicalize_name(requirement.name)] = only.version
    return found


class Resolver:
    """Follows packages to those that they need, by the metadata of what is installed."""

    def __init__(self, pinned: dict[str, str]) -> None:
        self._pinned = pinned
        self.edges: dict[str, set[str]] = {}
        self._seen: set[tuple[str, frozenset[str]]] = set()

    def follow(self, requirements: Iterable[str], extras: frozenset[str] = frozenset()) -> set[str]:
        """Return the names that these ask for on this platform; all that those need is in ``edges`` afterwards."""
        names = set()
        for text in requirements:
            asked = Requirement(text)
            wanted = [{"extra": extra} for extra in sorted(extras)] or [{"extra": ""}]
            if asked.marker is not None and not any(asked.marker.evaluate(one) for one in wanted):
                continue
            name = canonicalize_name(asked.name)
            names.add(name)
            self._visit(name, frozenset(asked.extras))
        return names

    def _visit(self, name: str, extras: frozenset[str]) -> None:
        if (name, extras) in self._seen:
            return
        self._seen.add((name, extras))
        installed = importlib.metadata.distribution(name)
        if self._pinned.get(name) != installed.version:
            raise Mismatch(f"{name} {installed.version} is installed, and {self._pinned.get(name, 'none')} is pinned")
        needed = self.follow(installed.requires or (), extras)
        self.edges.setdefault(name, set()).update(needed)


def licence(name: str) -> list[dict[str, Any]]:
    """Return what the package's metadata says: an expression of SPDX, else the name that it gives; nothing is
    guessed."""
    metadata = importlib.metadata.metadata(name)
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    said = str(metadata.get("License") or "").strip()
    if said and said != "UNKNOWN" and len(said) <= SHORT and "\n" not in said:
        return [{"license": {"name": said}}]
    classified = [line for line in metadata.get_all("Classifier") or () if line.startswith("License :: ")]
    return [{"license": {"name": line.rpartition(" :: ")[2]}} for line in classified]


def component(name: str, version: str, scope: str) -> dict[str, Any]:
    """Return a package of PyPI."""
    purl = f"pkg:pypi/{name}@{version}"
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": scope,
        "licenses": licence(name),
        "purl": purl,
    }
    return {key: value for key, value in found.items() if value != []}


def bundled() -> dict[str, Any]:
    """uPlot, whose files are in the wheel."""
    script = ROOT / "realtime/static/realtime/vendor/uplot/uPlot.iife.js"
    (own,) = re.findall(r"github\.com/leeoniya/uPlot \(v([\d.]+)\)", script.read_text(encoding="utf-8")[:1000])
    purl = f"pkg:npm/uplot@{own}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": "uplot",
        "version": own,
        "scope": "required",
        "licenses": [{"license": {"id": "MIT"}}],
        "purl": purl,
    }


def document(moment: int) -> dict[str, Any]:
    """Return the whole; ``moment`` is the time of the commit in seconds. Raise Mismatch, or PackageNotFoundError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = pins("requirements.txt", "constraints.txt")
    resolver = Resolver(pinned)
    base = resolver.follow(project["dependencies"])
    required = set(_reached(base, resolver.edges))
    extras = [text for name, texts in project["optional-dependencies"].items() if name != "test" for text in texts]
    optional = resolver.follow(extras)
    chart = bundled()
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    refs = {name: f"pkg:pypi/{name}@{pinned[name]}" for name in resolver.edges}
    needs = {refs[name]: sorted(refs[one] for one in edges) for name, edges in resolver.edges.items()}
    needs |= {root: sorted([*(refs[name] for name in base | optional), chart["bom-ref"]]), chart["bom-ref"]: []}
    components = [
        component(name, pinned[name], "required" if name in required else "optional") for name in sorted(resolver.edges)
    ]
    content: dict[str, Any] = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "tools/sbom.py", "version": project["version"]}]},
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": root,
            },
        },
        "components": [*components, chart],
        "dependencies": [{"ref": ref, "dependsOn": needs[ref]} for ref in sorted(needs)],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return {**head, **content}


def _reached(names: Iterable[str], edges: dict[str, set[str]]) -> Iterator[str]:
    ahead, seen = list(names), set()
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            yield name
            ahead += edges.get(name, ())
