"""Other distributions' packages of the same names are told, with what to uninstall."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from entitlement import installation
from entitlement.apps import DJANGO, require_django
from tests.support.wheel import PROJECT


def put(folder: Path, distribution: str, package: str) -> None:
    """A package, as pip would have installed it with a distribution."""
    (folder / package).mkdir(parents=True, exist_ok=True)
    (folder / package / "__init__.py").touch()
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    with (info / "RECORD").open("a") as record:
        record.write(f"{package}/__init__.py,,\n{distribution}.py,,\n")


def test_nothing_is_in_the_way_here() -> None:
    assert installation.package_messages(sys.path, installation.ROOT) == []
    assert installation.check_packages() == []  # of other commands than `check`, nothing is asked


def test_another_package_is_found_first(tmp_path: Path) -> None:
    """And then it is what `import` gives."""
    put(tmp_path / "ours", installation.NAME, "spark")
    put(tmp_path / "theirs", "spark-of-others", "spark")
    found = [str(tmp_path / "theirs"), str(tmp_path / "ours")]
    [error] = installation.package_messages(found, tmp_path / "ours")
    assert (error.id, "`import spark` finds" in error.msg) == ("entitlement.E004", True)
    assert "`pip uninstall spark-of-others`" in error.hint
    assert installation.package_messages(found[::-1], tmp_path / "ours") == []


def test_a_folder_of_the_project_is_found_first(tmp_path: Path) -> None:
    """An app that is called so, which nobody can uninstall."""
    (tmp_path / "realtime").mkdir()
    (tmp_path / "realtime" / "__init__.py").touch()
    [error] = installation.package_messages([str(tmp_path)], tmp_path / "ours")
    assert "Rename that package" in error.hint
    assert "pip uninstall" not in error.hint


def test_two_distributions_share_a_folder(tmp_path: Path) -> None:
    """Which of them has written a file last is chance."""
    put(tmp_path, installation.NAME, "realtime")
    put(tmp_path, "realtime", "realtime")
    [error] = installation.package_messages([str(tmp_path)], tmp_path)
    assert "The distribution realtime has put files of its own into" in error.msg
    assert "pip uninstall realtime" in error.hint
    assert f"--no-deps {installation.NAME}" in error.hint


def test_one_app_without_the_other(settings: Any) -> None:
    """Either way it is said what to type; Django itself would name a model that nobody has heard of."""
    assert installation.app_messages() == []
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if not app.startswith("realtime")]
    [warning] = installation.app_messages()
    assert (warning.id, warning.hint) == ("entitlement.W009", 'INSTALLED_APPS += ["realtime", "entitlement"]')
    with pytest.raises(ImproperlyConfigured, match=r'INSTALLED_APPS \+= \["realtime", "entitlement"\]'):
        settings.INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "realtime"]


def test_a_django_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where pip was told to look at no dependencies; the bound is that of the metadata."""
    require_django()
    assert f"Django>={'.'.join(map(str, DJANGO))}," in PROJECT["dependencies"][0]
    monkeypatch.setattr("django.VERSION", (5, 1, 15, "final", 0))
    monkeypatch.setattr("django.__version__", "5.1.15")
    with pytest.raises(ImproperlyConfigured, match=r"this is 5\.1\.15: pip install --upgrade 'Django>=5\.2'"):
        require_django()
