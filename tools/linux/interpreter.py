"""Copies the Python that runs this into a folder, from which it runs on any Linux whose C library is as new."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
C_LIBRARY = re.compile(r"linux-vdso\.so|(/lib64/)?ld-linux|lib(c|m|dl|rt|pthread|util|resolv)\.so")
"""Libraries that every Linux has, by the beginning of its name."""
TAKEN = re.compile(r"lib(python3|ssl|crypto|ffi|z|bz2|lzma|sqlite3|expat|uuid)[.0-9]*\.so")
"""Libraries that may come along: a module that links to anything else, such as readline, stays where it is."""
LEFT_OUT = re.compile(
    r"(test|idlelib|tkinter|turtledemo|lib2to3|ensurepip|pydoc_data|site-packages|dist-packages|config-[^/]*)/"
    r"|(.*/)?(tests|test|__pycache__)/|sitecustomize\.py|turtle\.py|lib-dynload/(_?test|_ctypes_test|_xx|xx)"
)
"""Files of the standard library, as paths in it, that a server has no use for."""
LAUNCHER = f"""\
#!/bin/sh
# The Python that is in this folder, wherever that is, with the packages in it and no others.
home=$(dirname "$(dirname "$(readlink -f "$0")")")
export PYTHONHOME="$home" PYTHONPATH="$home/lib/python{VERSION}/site-packages" LD_LIBRARY_PATH="$home/lib"
exec "$home/bin/python{VERSION}" -s -S -P "$@"
"""


class Unfit(Exception):
    """The difference of what is installed here and what may be given away and runs elsewhere."""


def copy(folder: Path) -> None:
    """Write the interpreter, its standard library, the libraries that both link to, and their licences; Unfit where
    something of it is not here."""
    standard, target = Path(sysconfig.get_path("stdlib")), folder / "lib" / f"python{VERSION}"
    program = Path(sys.executable).resolve()
    (folder / "bin").mkdir(parents=True)
    _write(program, folder / "bin" / f"python{VERSION}")
    (folder / "bin" / "python").write_text(LAUNCHER, encoding="utf-8")
    libraries = dict(_linked(program))
    for path in sorted(standard.rglob("*")):
        name = str(path.relative_to(standard))
        if path.is_dir() or LEFT_OUT.match(name):
            continue
        if name.startswith("lib-dynload/"):
            links = dict(_linked(path))
            if not all(TAKEN.match(each) for each in links):
                continue
            libraries |= links
        _write(path, target / name)
    licences = folder / "licences"
    licences.mkdir()
    shutil.copyfile(_licence_of_python(standard), licences / "python")
    for name, path in libraries.items():
        _write(path, folder / "lib" / name)
        if not name.startswith("libpython"):
            shutil.copyfile(_licence(path), licences / name.partition(".so")[0])


def newest_c_library(folder: Path) -> tuple[int, int]:
    """Return the version of the C library that the programs in a folder ask for: as (2, 35)."""
    found = {(2, 17)}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    named = re.findall(rb"GLIBC_(\d+)\.(\d+)\b", file.read())
                    found |= {(int(major), int(minor)) for major, minor in named}
    return max(found)


def _linked(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the place of each library that a program or a library loads, but for those of every Linux."""
    said = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        name, _, place = line.strip().partition(" => ")
        if place and not C_LIBRARY.match(name):
            yield name, Path(place.partition(" ")[0])


def _write(source: Path, target: Path) -> None:
    """Copy a file; what is code of the machine without its notes for debuggers."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with source.open("rb") as file:
        is_code = file.read(4) == b"\x7fELF"
    if is_code:
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)


def _licence_of_python(standard: Path) -> Path:
    """Return where it is: beside the library, or where Debian has it."""
    for path in (standard / "LICENSE.txt", Path(f"/usr/share/doc/python{VERSION}/copyright")):
        if path.is_file():
            return path
    raise Unfit(f"the licence of the Python in {standard} is not found")


def _licence(library: Path) -> Path:
    """Return the file in which Debian says whose a library is."""
    real = str(library.resolve())
    for name in (real, real.removeprefix("/usr"), f"/usr{real}"):
        said = subprocess.run(["dpkg", "--search", name], capture_output=True, text=True, check=False).stdout
        path = Path("/usr/share/doc") / said.partition(":")[0] / "copyright"
        if said and path.is_file():
            return path
    raise Unfit(f"no package of Debian has {library}, so that its licence is not known")
