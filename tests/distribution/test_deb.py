"""The package of the sidecar for Debian: the same bytes twice, complete by itself, and of one mind with its page.

What installing, upgrading, removing and purging do is tried on a machine that is nobody's: `tools/try_deb.sh`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.client.blocking import connect
from tests.support.guide import one
from tests.support.realtime.server import ROOT
from tests.support.sidecar import Sidecar
from tests.support.wheel import EPOCH, PROJECT, build
from tools import deb, sbom

SCRIPTS = ROOT / "tools" / "debian"
ABSENT = ("django", "realtime", "entitlement", "pyspark", "pip")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all."""
    folder = tmp_path_factory.mktemp("deb")
    return deb.build(folder, build(folder), int(EPOCH))


@pytest.fixture(scope="module")
def installed(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in it, in a folder."""
    folder = tmp_path_factory.mktemp("extracted")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(folder)], check=True, timeout=120)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_runs_give_the_same_bytes(package: Path, tmp_path: Path) -> None:
    """And its name and dependencies are those of this version and Python."""
    (wheel,) = package.parent.glob("*.whl")
    before = os.umask(0o077)
    try:
        again = deb.build(tmp_path, wheel, int(EPOCH))
    finally:
        os.umask(before)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(package.read_bytes()).digest()
    said = subprocess.run(["dpkg-deb", "--field", str(package)], capture_output=True, text=True, check=True).stdout
    assert f"Version: {PROJECT['version']}\n" in said
    assert f"python3 (>= 3.{sys.version_info.minor}), python3 (<< 3.{sys.version_info.minor + 1})" in said
    assert package.name.startswith(f"fastpath-sidecar_{PROJECT['version']}_")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_sidecar_runs_with_what_is_in_it(installed: Path) -> None:
    """With none of the packages that are installed here: not even with their folder."""
    (site,) = installed.glob("usr/lib/fastpath/lib/python3*/site-packages")
    program = f"import importlib.util; print([name for name in {ABSENT} if importlib.util.find_spec(name)])"
    alone = os.environ | {"PYTHONPATH": str(site)}
    options = {"env": alone, "cwd": installed, "capture_output": True, "text": True, "timeout": 60}
    assert subprocess.run([sys.executable, "-S", "-c", program], **options).stdout.strip() == "[]"  # type: ignore[call-overload]
    sidecar = Sidecar(mode="none", journal="interval", data=str(installed / "journal"))
    sidecar.command = ["env", f"PYTHONPATH={site}", sys.executable, "-S", "-P", "-m", "fastpath"]
    with sidecar, connect(sidecar.client_url) as client:
        assert client.publish("/deb/one", "x").seq == 1
    assert (installed / "usr/lib/fastpath/bin/python").readlink() == Path(f"/usr/bin/python3.{sys.version_info.minor}")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_is_roots_and_no_more_than_it_says(installed: Path, package: Path) -> None:
    """No caches of Python's, nothing that others may write, the unit of the page with its own folders."""
    listed = subprocess.run(["dpkg-deb", "--contents", str(package)], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=5) for line in listed.splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    assert {row[0] for row in rows} == {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}
    assert [row[5] for row in rows if row[0] == "-rwxr-xr-x"] == ["./usr/bin/fastpath"]
    assert not re.search(r"__pycache__|\.pyc|direct_url|/\.", listed.replace("./", ""))
    unit = (installed / "lib/systemd/system/fastpath.service").read_text()
    assert "/srv/mysite" not in unit
    assert (
        unit.replace("/usr/lib/fastpath/bin", "/srv/mysite/.venv/bin").replace(
            "WorkingDirectory=/var/lib/fastpath", "WorkingDirectory=/srv/mysite"
        )
        == (ROOT / deb.UNIT).read_text()
    )


@pytest.mark.parametrize("name", [*deb.SCRIPTS, "fastpath"])
def test_the_scripts_are_for_any_shell(name: str) -> None:
    """They run by `sh`, which is dash on Debian, and end with the first command that fails."""
    text = (SCRIPTS / name).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert name == "fastpath" or "\nset -e\n" in text
    subprocess.run(["dash" if Path("/bin/dash").exists() else "sh", "-n", str(SCRIPTS / name)], check=True, timeout=20)


def test_the_first_configuration_is_that_of_the_page() -> None:
    """docs/operate/install.md, for who installs by hand; the secret is made by what a bare Debian has."""
    page = re.findall(r"^FASTPATH_(?!TOKEN).*$", one("docs/operate/install.md", "sh", "FASTPATH_TOKEN_SECRET="), re.M)
    script = (SCRIPTS / "postinst").read_text()
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
    with pytest.raises(deb.Unfit, match="own-code was compiled on this machine"):
        deb.copied("own-code", tmp_path / "site")
    with pytest.raises(sbom.Mismatch):
        sbom.Resolver(sbom.pins("requirements.txt")).follow(["own-code"])
