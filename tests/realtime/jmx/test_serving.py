"""``python -m realtime.jmx``: its options, and what it says of those that cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from realtime.jmx.serving import read_password
from tests.support.realtime.jmx_reader import read
from tests.support.realtime.server import ROOT, Program


@pytest.mark.slow
def test_it_serves_where_and_for_whom_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("grün 7\nnot this\n", encoding="utf-8")
    argv = [sys.executable, "-m", "realtime.jmx", "--listen", "jmx://127.0.0.1:0", "--password-file", str(file)]
    with Program(argv, {"REALTIME_VAR": str(tmp_path)}, r"MBeans at \S+:(\d+)/jmxrmi") as program:
        port = int(program.found[1])
        answers = read(port, "names=fastpath:type=Node,*", logins=["any/grün 7", "any/not this"])
        assert answers[0].startswith("[fastpath:type=Node,name=")
        assert answers[1].startswith("refused")
    assert program.process.returncode == 0, program.output
    assert "Traceback" not in program.output, "a database without tables is none of its faults"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], 'set REALTIME["JMX"]'),
        (["--listen", "jmx://127.0.0.1:9010?tls=1"], "unknown option tls"),
        (["--listen", "jmx://127.0.0.1:0", "--password-file", "/nowhere/password"], "/nowhere/password"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(tmp_path: Path, options: list[str], what: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "realtime.jmx", *options],
        cwd=ROOT,
        env=os.environ | {"REALTIME_VAR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (answer.returncode, what in answer.stderr) == (2, True), answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_the_password_is_the_files_first_line(tmp_path: Path) -> None:
    file = tmp_path / "password"
    for text, password in (("a b\r\nc", "a b"), (" x ", " x ")):
        file.write_bytes(text.encode())
        assert read_password(str(file)) == password
    file.write_text("\nx")
    with pytest.raises(ImproperlyConfigured, match="first line is empty"):
        read_password(str(file))
