"""Puts beside wheel and source distribution what else a release consists of, and the checksums of all.

`python -m tools.release FOLDER SECONDS`: the JavaScript client as npm takes it, what the images are built from, the
manual as a site, and what the release depends on. SECONDS, the time of the commit, is the time of every file: the same
commit gives the same bytes, whoever builds it wherever.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools import sbom

ROOT = Path(__file__).parents[1]
CLIENT = "realtime/static/realtime"
"""Folder of the JavaScript client."""
CONTAINERS = "docs/operate/containers"
SUMS = "SHA256SUMS"


class Member(NamedTuple):
    """A file of an archive."""

    content: bytes
    is_executable: bool = False


def listed(*paths: str) -> dict[str, Member]:
    """Return the files below some paths that git has, as they are in the checkout."""
    argv = ["git", "ls-files", "--stage", "-z", "--", *paths]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {}
    for line in filter(None, said.split("\0")):
        head, _, name = line.partition("\t")
        found[name] = Member((ROOT / name).read_bytes(), head.startswith("100755"))
    return found


def tarball(path: Path, members: Mapping[str, Member], moment: int) -> None:
    """Write an archive that says nothing of who has made it: names in order, one time, nobody's ids."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=moment) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size = len(members[name].content)
            entry.mtime = moment
            entry.mode = 0o755 if members[name].is_executable else 0o644
            archive.addfile(entry, io.BytesIO(members[name].content))


def npm(version: str) -> tuple[str, dict[str, Member]]:
    """Return the name of the JavaScript client's package, and its files: the one, its map, the modules, types,
    licence."""
    files = listed(*(f"{CLIENT}/{name}" for name in ("client.js", "client.js.map", "client.d.ts", "client")))
    own = {f"package{name.removeprefix(CLIENT)}": member for name, member in files.items()}
    manifest = json.loads((ROOT / CLIENT / "package.json").read_text(encoding="utf-8"))
    manifest = {"name": manifest.pop("name"), "version": version} | manifest
    own["package/package.json"] = Member((json.dumps(manifest, indent=2) + "\n").encode())
    own["package/README.md"] = listed("tools/npm/README.md")["tools/npm/README.md"]
    own["package/LICENSE"] = listed("LICENSE")["LICENSE"]
    return manifest["name"], own


def images(wheel: Path) -> dict[str, Member]:
    """Return what `docker build` reads: the files of docs/operate/containers where its Containerfile looks for them."""
    return listed(CONTAINERS, "constraints.txt") | {f"dist/{wheel.name}": Member(wheel.read_bytes())}


def manual(moment: int) -> dict[str, Member]:
    """Build the site with tools/manual.sh and return its files."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(moment)}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "tools" / "manual.sh", folder], env=environment, check=True)
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): Member(path.read_bytes()) for path in paths}


def sums(folder: Path) -> str:
    """Return the checksums as `sha256sum --check` reads them."""
    paths = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)


def notes(version: str) -> list[str]:
    """Return what a release still lacks that is no file."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = []
    if not re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading of {version} with its date yet")
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    if f"v{version}" not in tags.stdout.split():
        found.append(f"this commit has no tag v{version}")
    return found


def main() -> int:
    """Build into the folder with the wheel; the exit status."""
    folder, moment = Path(sys.argv[1]), int(sys.argv[2])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    (wheel,) = folder.glob("*.whl")
    try:
        bill = sbom.document(moment)
    except (sbom.Mismatch, importlib.metadata.PackageNotFoundError) as error:
        print(f"release: {error}: run `make setup`", file=sys.stderr)
        return 1
    text = json.dumps(bill, indent=1, ensure_ascii=False)
    (folder / f"{name}-{version}.cdx.json").write_text(f"{text}\n", encoding="utf-8")
    client, files = npm(version)
    tarball(folder / f"{client}-{version}.tgz", files, moment)
    tarball(folder / f"{name}-{version}-images.tar.gz", images(wheel), moment)
    pages = {f"{name}-{version}-manual/{path}": member for path, member in manual(moment).items()}
    tarball(folder / f"{name}-{version}-manual.tar.gz", pages, moment)
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")
    for path in sorted(folder.iterdir()):
        print(path)
    for note in notes(version):
        print(f"release: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
