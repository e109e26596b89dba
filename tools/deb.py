"""Builds the package `fastpath-sidecar` for Debian: the sidecar with all that it needs, and its unit.

`python -m tools.deb FOLDER SECONDS`: FOLDER has the wheel and gets the package; SECONDS is the time of every file.
Nothing is fetched, neither here nor when it is installed: the packages are those of docs/operate/containers/sidecar.txt
and what they need, as they are installed here from their wheels, in the versions that are pinned.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from tools import sbom

ROOT = Path(__file__).parents[1]
NAME = "fastpath-sidecar"
HOME = "usr/lib/fastpath"
"""Folder of the virtual environment."""
SCRIPTS = ("postinst", "prerm", "postrm")
UNIT = "docs/operate/systemd/fastpath.service"
IN_PLACE = {
    "/srv/mysite/.venv/bin/python": f"/{HOME}/bin/python",
    "WorkingDirectory=/srv/mysite": "WorkingDirectory=/var/lib/fastpath",
}
"""Words that the unit says of a project's folder, and those that it says in the package."""
OWN = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""Files in which pip notes its own work."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: The authors of Fastpath <fastpath@localhost>
Depends: python3 (>= {python}), python3 (<< {next_python}), libc6 (>= {libc}), passwd, init-system-helpers
Section: net
Priority: optional
Installed-Size: {kilobytes}
Description: {summary}
 The sidecar holds the connections of browsers and programs, publishes to them and keeps what they missed. This package
 has it with all that it needs, and a service; Django's side is the Python package django-fastpath.
"""


class Unfit(Exception):
    """A package that is installed here would not run elsewhere."""


def environment(folder: Path, wheel: Path) -> str:
    """Write the virtual environment; the version of the C library that it needs."""
    site = folder / "lib" / f"python{PYTHON}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(f"/usr/bin/python{PYTHON}")
    settings = {"home": "/usr/bin", "include-system-site-packages": "false", "version": PYTHON}
    (folder / "pyvenv.cfg").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    lines = (ROOT / "docs/operate/containers/sidecar.txt").read_text(encoding="utf-8").splitlines()
    resolver = sbom.Resolver(sbom.pins("requirements.txt", "constraints.txt"))
    resolver.follow(line for line in lines if line and not line.startswith("#"))
    needs = [copied(name, site) for name in sorted(resolver.edges)]
    with zipfile.ZipFile(wheel) as archive:
        top = ("fastpath/", f"{wheel.name.partition('-py3')[0]}.dist-info/")
        archive.extractall(site, [name for name in archive.namelist() if name.startswith(top)])
    return ".".join(map(str, max(needs)))


def copied(name: str, site: Path) -> tuple[int, int]:
    """Copy a package as it is installed here, without what pip and Python have made; return the C library that it
    needs."""
    installed = importlib.metadata.distribution(name)
    tags = re.findall(r"^Tag: (\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    libraries = [(int(major), int(minor)) for major, minor in re.findall(r"manylinux_(\d+)_(\d+)_", " ".join(tags))]
    if not libraries and not all(tag.endswith("-any") for tag in tags):
        raise Unfit(f"{name} was compiled on this machine ({', '.join(tags)})")
    for file in installed.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in OWN:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)
    return min(libraries, default=(2, 17))


def tree(folder: Path, wheel: Path) -> str:
    """Write all files of the package below a folder; the version of the C library that it needs."""
    libc = environment(folder / HOME, wheel)
    unit = (ROOT / UNIT).read_text(encoding="utf-8")
    for said, here in IN_PLACE.items():
        if said not in unit:
            raise Unfit(f"{UNIT} has no {said} any more")
        unit = unit.replace(said, here)
    texts = {
        "lib/systemd/system/fastpath.service": unit,
        "usr/bin/fastpath": (ROOT / "tools/debian/fastpath").read_text(encoding="utf-8"),
        f"usr/share/doc/{NAME}/copyright": "".join(
            (ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE", "NOTICE")
        ),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return libc


def build(target: Path, wheel: Path, moment: int) -> Path:
    """Build the package, in a folder; raise Unfit, Mismatch, PackageNotFoundError or CalledProcessError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / NAME
        folder.mkdir()
        libc = tree(folder, wheel)
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        control = CONTROL.format(
            name=NAME,
            version=project["version"],
            architecture=said.stdout.strip(),
            python=PYTHON,
            next_python=f"{sys.version_info.major}.{sys.version_info.minor + 1}",
            libc=libc,
            kilobytes=sum(-(-path.stat().st_size // 1024) for path in files),
            summary="real-time data for Django: the sidecar",
        )
        (folder / "DEBIAN").mkdir()
        (folder / "DEBIAN" / "control").write_text(control, encoding="utf-8")
        for script in SCRIPTS:
            shutil.copyfile(ROOT / "tools/debian" / script, folder / "DEBIAN" / script)
        _settle(folder, moment)
        file = target / f"{NAME}_{project['version']}_{said.stdout.strip()}.deb"
        argv = ["dpkg-deb", "--build", "--root-owner-group", "-z3", str(folder), str(file)]
        # More than one thread would cut what is compressed as many cores as there are.
        more = {"SOURCE_DATE_EPOCH": str(moment), "DPKG_DEB_THREADS_MAX": "1"}
        subprocess.run(argv, env=os.environ | more, stdout=subprocess.DEVNULL, check=True)
    return file


def _settle(folder: Path, moment: int) -> None:
    """Set modes and times that say nothing of who has built it."""
    programs = {folder / "usr/bin/fastpath", *(folder / "DEBIAN" / script for script in SCRIPTS)}
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def main() -> int:
    """Run the command line; return the exit status."""
    folder, moment = Path(sys.argv[1]), int(sys.argv[2])
    (wheel,) = folder.glob("*.whl")
    try:
        print(build(folder, wheel, moment))
    except (Unfit, sbom.Mismatch, importlib.metadata.PackageNotFoundError) as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        if error.filename not in ("dpkg", "dpkg-deb"):
            raise
        print(f"deb: {error.filename} is missing: it is Debian's own", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
