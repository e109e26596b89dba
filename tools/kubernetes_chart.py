"""Render the Helm chart: the manifest of docs/operate/kubernetes, the one of the tests, the page's table of values.

``python tools/kubernetes_chart.py`` needs helm in PATH. Each manifest says of which files it was made, so that a test
without helm sees that it is stale.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "docs" / "operate" / "kubernetes" / "chart"
PAGE = ROOT / "docs" / "operate" / "kubernetes.md"
BEGIN, END = "<!-- values: tools/kubernetes_chart.py writes this -->", "<!-- values end -->"
NAMESPACE = "fastpath"
KUBERNETES = "1.30.0"
"""The version that is rendered for: a helm that was built without one takes 1.20, which the chart refuses."""
DEFAULT_CHARACTERS_MAX = 40
"""Characters of a default in the table; longer ones are in the file."""


class Manifest(NamedTuple):
    """A rendering: where it is kept, of which values besides the defaults, and what is said at its head."""

    path: Path
    values: Path | None
    head: str


MANIFESTS = (
    Manifest(
        CHART.parent / "fastpath.yaml",
        None,
        "The chart with its default values, for who has no helm: kubectl apply --namespace fastpath --filename THIS",
    ),
    Manifest(
        ROOT / "tests" / "distribution" / "chart" / "everything.yaml",
        ROOT / "tests" / "distribution" / "chart" / "everything.values.yaml",
        "The chart with all that it can make, for the tests.",
    ),
)


class Value(NamedTuple):
    """A value of the chart: its path with dots, its default, and what the comment above it says."""

    path: str
    default: Any
    comment: str


def values() -> list[Value]:
    """Return all values that have a comment of their own, in the order of the file."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    defaults = yaml.safe_load(text)
    found: list[Value] = []
    above: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if match := re.match(r"( *)# ?(.*)", line):
            comment.append(match[2])
        elif match := re.match(r"( *)([\w./-]+):", line):
            above = [*above[: len(match[1]) // 2], match[2]]
            if comment:
                default = defaults
                for name in above:
                    default = default[name]
                found.append(Value(".".join(above), default, " ".join(comment)))
            comment = []
        else:
            comment = []
    return found


def table() -> str:
    """Return the values as the page has them."""
    lines = ["| value | default | |", "|---|---|---|"]
    for value in values():
        default = json.dumps(value.default, ensure_ascii=False)
        shown = f"`{default}`" if len(default) <= DEFAULT_CHARACTERS_MAX else "in the file"
        lines.append(f"| `{value.path}` | {shown} | {value.comment} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with the table of today."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def digest(manifest: Manifest) -> str:
    """Return the digest of all files that a rendering depends on, with their names."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    sha = hashlib.sha256()
    for path in [*files, *([manifest.values] if manifest.values else [])]:
        sha.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes())
    return sha.hexdigest()


def rendered(manifest: Manifest, *more: str) -> str:
    """Return what helm makes of the chart; raise subprocess.CalledProcessError with what helm has to say."""
    given = ["--values", str(manifest.values)] if manifest.values else []
    whither = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    argv = ["helm", "template", "fastpath", str(CHART), *whither, *given, *more]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    return re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)


def text_of(manifest: Manifest) -> str:
    """Return a rendering as it is kept."""
    head = f"# {manifest.head}\n# Rendered by tools/kubernetes_chart.py from {digest(manifest)}\n"
    return head + rendered(manifest)


def main() -> int:
    """Write all of it; the exit status."""
    for manifest in MANIFESTS:
        manifest.path.write_text(text_of(manifest), encoding="utf-8")
        print(f"wrote {manifest.path}")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
