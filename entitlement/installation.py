"""System check: the packages are those of one distribution, and no other one of the same name is in the way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning

NAME = "django-fastpath"
PACKAGES = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")
ROOT = Path(__file__).resolve().parents[1]
"""The folder that all are imported from."""

_AGAIN = f"pip install --force-reinstall --no-deps {NAME}"


def check_packages(**_: Any) -> list[CheckMessage]:
    """Find packages in the way; for ``manage.py check`` alone, as reading what is installed takes a moment."""
    return [*package_messages(sys.path, ROOT), *app_messages()] if "check" in sys.argv[1:2] else []


def app_messages() -> list[CheckMessage]:
    """Find this app without the other: rules alone let nobody read anything. Without this one Django does not start."""
    if apps.is_installed("realtime"):
        return []
    return [
        Warning(
            'INSTALLED_APPS names "entitlement" without "realtime", which publishes, and has the pages and commands.',
            hint='INSTALLED_APPS += ["realtime", "entitlement"]',
            id="entitlement.W009",
        )
    ]


def package_messages(path: Sequence[str], root: Path) -> list[CheckMessage]:
    """Return what is in the way of the packages in ``root`` for a program that imports from ``path``."""
    found: list[CheckMessage] = []
    for name in PACKAGES:
        spec = PathFinder.find_spec(name, list(path))
        place = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
        if place is not None and place != root / name:
            found.append(
                Error(
                    f"`import {name}` finds {place}, and not {NAME}'s package in {root}.",
                    hint=f"Rename that package, or remove what brought it: {_uninstall(_bringing(name, path, place))}",
                    id="entitlement.E004",
                )
            )
    for name in PACKAGES:
        for other in _bringing(name, path, root / name):
            found.append(
                Error(
                    f"The distribution {other} has put files of its own into {NAME}'s package {name} ({root / name}).",
                    hint=f"{_uninstall([other])}, then `{_AGAIN}`.",
                    id="entitlement.E004",
                )
            )
    return found


def _bringing(package: str, path: Sequence[str], place: Path) -> list[str]:
    """Return the other distributions that have files in the folder ``place`` of a package."""
    return sorted(
        {_name(one) for one in distributions(path=list(path)) if _is_other(one) and _has(one, package, place)}
    )


def _has(distribution: Distribution, package: str, place: Path) -> bool:
    names = (distribution.read_text("top_level.txt") or "").split()
    files = distribution.files or []
    if package not in names and not any(file.parts[0] == package for file in files):
        return False
    return Path(str(distribution.locate_file(package))).resolve() == place


def _is_other(distribution: Distribution) -> bool:
    return _name(distribution).lower().replace("_", "-") != NAME


def _name(distribution: Distribution) -> str:
    return str(distribution.metadata["Name"])


def _uninstall(names: Iterable[str]) -> str:
    listed = " ".join(names)
    return f"`pip uninstall {listed}`" if listed else "nothing that pip has installed."
