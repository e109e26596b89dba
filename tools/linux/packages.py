"""Builds `fastpath-sidecar` for Linux: the sidecar with all that it needs, and its unit, as deb, rpm and a folder.

`python -m tools.linux.packages FOLDER SECONDS [MORE]`: FOLDER has the wheel and gets the three; SECONDS is the time of
every file, and MORE goes behind the version of a trial. Nothing is fetched, neither here nor when they are installed:
the packages of Python are those of docs/operate/containers/sidecar.txt and what they need, as they are installed here
from their wheels, in the versions that are pinned. The deb and the folder bring the Python that runs this; the rpm
takes the distribution's, as the long-lived distributions of that kind have an older C library than this machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tools import release, sbom
from tools.linux import interpreter
from tools.linux.interpreter import VERSION as PYTHON
from tools.linux.interpreter import Unfit

ROOT = Path(__file__).parents[2]
OWN = ROOT / "tools" / "linux"
NAME = "fastpath-sidecar"
HOME = "usr/lib/fastpath"
"""Folder of all of it, once it is installed."""
SERVICE = "docs/operate/systemd/fastpath.service"
IN_PLACE = {
    "/srv/mysite/.venv/bin/python": f"/{HOME}/bin/python",
    "WorkingDirectory=/srv/mysite": "WorkingDirectory=/var/lib/fastpath",
}
"""Words that the unit says of a project's folder, and those that it says in the package."""
PROGRAMS = ("fastpath", "set-up")
NOTES_OF_PIP = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
SCRIPTS = {
    "deb": {"postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"},
    "rpm": {"preinstall": "pre", "postinstall": "post", "preremove": "preun", "postremove": "postun"},
}
"""Scripts as nfpm calls them, and the file of each in the folder of the format."""
DESCRIPTION = """\
real-time data for Django: the sidecar
The sidecar holds the connections of browsers and programs, publishes to them and keeps what they missed. This package
has it with all that it needs, and a service; Django's side is the Python package django-fastpath."""


class Build(NamedTuple):
    """The things that all three are made of."""

    wheel: Path
    moment: int
    version: str
    architecture: str
    """The kind of processor, as Debian names it."""


def packages_into(site: Path, wheel: Path) -> None:
    """Write the sidecar and the packages that it needs; raise Unfit, Mismatch or PackageNotFoundError."""
    site.mkdir(parents=True, exist_ok=True)
    lines = (ROOT / "docs/operate/containers/sidecar.txt").read_text(encoding="utf-8").splitlines()
    resolver = sbom.Resolver(sbom.pins("requirements.txt", "constraints.txt"))
    resolver.follow(line for line in lines if line and not line.startswith("#"))
    for name in sorted(resolver.edges):
        copied(name, site)
    with zipfile.ZipFile(wheel) as archive:
        top = ("fastpath/", f"{wheel.name.partition('-py3')[0]}.dist-info/")
        archive.extractall(site, [name for name in archive.namelist() if name.startswith(top)])


def copied(name: str, site: Path) -> None:
    """Copy a package as it is installed here, without what pip and Python have made; Unfit if it was compiled here."""
    installed = importlib.metadata.distribution(name)
    tags = re.findall(r"^Tag: (\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    if not any("-manylinux" in tag for tag in tags) and not all(tag.endswith("-any") for tag in tags):
        raise Unfit(f"{name} was compiled on this machine ({', '.join(tags)})")
    for file in installed.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in NOTES_OF_PIP:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


def whole(folder: Path, build: Build) -> None:
    """Write the sidecar with a Python of its own: it runs wherever the folder is."""
    interpreter.copy(folder)
    packages_into(folder / "lib" / f"python{PYTHON}" / "site-packages", build.wheel)
    _finish(folder, build)


def environment(folder: Path, build: Build) -> None:
    """Write the sidecar as a virtual environment of the distribution's Python, to be in its place."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(f"/usr/bin/python{PYTHON}")
    settings = {"home": "/usr/bin", "include-system-site-packages": "false", "version": PYTHON}
    (folder / "pyvenv.cfg").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    packages_into(folder / "lib" / f"python{PYTHON}" / "site-packages", build.wheel)
    _finish(folder, build)


def _finish(folder: Path, build: Build) -> None:
    """Add programs, unit and licence; set modes and times that say nothing of who has built it."""
    for name in PROGRAMS:
        shutil.copyfile(OWN / name, folder / "bin" / name)
    unit = (ROOT / SERVICE).read_text(encoding="utf-8")
    for said, here in IN_PLACE.items():
        if said not in unit:
            raise Unfit(f"{SERVICE} has no {said} any more")
        unit = unit.replace(said, here)
    (folder / "fastpath.service").write_text(unit, encoding="utf-8")
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE", "NOTICE")]
    (folder / "LICENSE").write_text("".join(texts), encoding="utf-8")
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == folder / "bin" else 0o644)
        os.utime(path, (build.moment, build.moment), follow_symlinks=False)


def deb(folder: Path, build: Build) -> Path:
    """Build it for Debian and what descends from it."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        whole(tree, build)
        c_library = ".".join(map(str, interpreter.newest_c_library(tree)))
        depends = [f"libc6 (>= {c_library})", "passwd", "init-system-helpers"]
        file = f"{NAME}_{build.version}_{build.architecture}.deb"
        return _nfpm(tree, folder / file, build, {"depends": depends, "deb": {"compression": "gzip"}})


def rpm(folder: Path, build: Build) -> Path:
    """Build it for Fedora, Red Hat's, SUSE's and what descends from them."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(build.architecture, build.architecture)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        environment(tree, build)
        c_library = ".".join(map(str, interpreter.newest_c_library(tree)))
        depends = [f"/usr/bin/python{PYTHON}", f"glibc >= {c_library}", "/usr/sbin/useradd", "/bin/sh"]
        more = {"depends": depends, "release": "1", "rpm": {"compression": "gzip", "buildhost": "localhost"}}
        return _nfpm(tree, folder / f"{NAME}-{build.version}-1.{machine}.rpm", build, more)


def folder_of_it(folder: Path, build: Build) -> Path:
    """Build the archive of a folder, for whom no package fits, or who is not root."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(build.architecture, build.architecture)
    top = f"{NAME}-{build.version}"
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / top
        whole(tree, build)
        shutil.copyfile(OWN / "README.md", tree / "README.md")
        members = {
            f"{top}/{path.relative_to(tree)}": release.Member(path.read_bytes(), bool(path.stat().st_mode & 0o100))
            for path in tree.rglob("*")
            if path.is_file()
        }
        file = folder / f"{top}-linux-{machine}.tar.gz"
        release.tarball(file, members, build.moment)
    return file


def _nfpm(tree: Path, file: Path, build: Build, more: dict[str, Any]) -> Path:
    """Build a package with nfpm."""
    kind = file.suffix[1:]
    contents = [
        {"src": str(tree), "dst": f"/{HOME}", "type": "tree"},
        {"src": f"/{HOME}/bin/fastpath", "dst": "/usr/bin/fastpath", "type": "symlink"},
        {"src": str(tree / "fastpath.service"), "dst": "/usr/lib/systemd/system/fastpath.service"},
        {"src": str(tree / "LICENSE"), "dst": f"/usr/share/doc/{NAME}/copyright"},
    ]
    configuration = {
        "name": NAME,
        "arch": build.architecture,
        "platform": "linux",
        "version": build.version,
        "section": "net",
        "priority": "optional",
        "maintainer": "The authors of Fastpath <fastpath@localhost>",
        "description": DESCRIPTION,
        "license": "BSD-3-Clause",
        "mtime": datetime.fromtimestamp(build.moment, UTC).isoformat().replace("+00:00", "Z"),
        "umask": 0o022,
        "contents": contents,
        "scripts": {name: str(OWN / kind / script) for name, script in SCRIPTS[kind].items()},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as written:
        json.dump(configuration | more, written)
        written.flush()
        argv = [_program("nfpm"), "package", "--config", written.name, "--packager", kind, "--target", str(file)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(build.moment)}
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unfit(f"nfpm: {done.stdout}{done.stderr}")
    return file


def _program(name: str) -> str:
    """Return where a program is: beside the Python that runs this, or in PATH."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        raise Unfit(f"{name} is missing: `make setup-tests` installs it")
    return found


def prepared(wheel: Path, moment: int) -> Build:
    """Return what all three are made of; Unfit where this is no machine to build them on."""
    for name in ("dpkg", "ldd", "strip"):
        if shutil.which(name) is None:
            raise Unfit(f"{name} is missing, which the packages of Debian have: dpkg, libc-bin, binutils")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    return Build(wheel, moment, project["version"], said.stdout.strip())


def main() -> int:
    """Run the command line; return the exit status."""
    folder, moment = Path(sys.argv[1]), int(sys.argv[2])
    (wheel,) = folder.glob("*.whl")
    try:
        build = prepared(wheel, moment)
        build = build._replace(version="".join([build.version, *sys.argv[3:]]))
        for make in (deb, rpm, folder_of_it):
            print(make(folder, build))
    except (Unfit, sbom.Mismatch, importlib.metadata.PackageNotFoundError) as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
