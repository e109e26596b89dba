"""The checks of code blocks find what is wrong: one example of each fault that they look for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documentation import addresses, claims, command_lines, python_code, scripts, shell
from tests.support.guide import every, one


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("async with connect(url) as client\n    pass\n", "line 1: expected ':'"),
        ("from realtime import publishing_of_all", "No module named 'realtime.publishing_of_all'"),
        ("import realtime.nothing", "No module named 'realtime.nothing'"),
        ("await client.publich('/a/b', 'x')", "client has no publich"),
        ("await client.publish('/a/b')", "missing a required argument: 'content'"),
        ("await client.publish('/a/b', 'x', kept=True)", "got an unexpected keyword argument 'kept'"),
        ("from realtime import publish\npublish('/a/b', 'x', {}, True)", "too many positional arguments"),
        ("from spark import lake\nlake.reed()", "lake has no reed"),
        (
            "from fastpath.client import connect\nconnect(url, token, quick_retry=1)",
            "connect() has no option quick_retry",
        ),
        ("REALTIME = {'OUT': True}", "REALTIME has no OUT"),
    ],
)
def test_python(text: str, fault: str) -> None:
    found = list(python_code.faults(text))
    assert len(found) == 1
    assert fault in found[0]


def test_names_out_of_nowhere(tmp_path: Path) -> None:
    assert python_code.undefined({"a": "print(token)", "b": "print(jason)"}, tmp_path) == ["b: Undefined name `jason`"]
    assert python_code.transcript(">>> a = 1\n>>> a\n1\n") == "a = 1\na\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("for name in a b; do", "syntax error"),
        ("python manage.py realtime_tokens ann", "manage.py has no realtime_tokens"),
        ("x=$(python manage.py realtime_token ann --second 5 --nothing)", "unrecognized arguments: --nothing"),
        ("fastpath-manage realtime_drain 1 --weight 60", "unrecognized arguments: --weight 60"),
        ("cat <<END | python tools/walk.py\nmake\nEND\n", "tools/walk.py is not there"),
        ("make distribution", "make has no distribution"),
        ("make bench ARG=1", "make has no ARG"),
        ("curl -s http://127.0.0.1:8800/api/publishing", "/api/publishing: neither"),
        ("case $a in b) fastpth;; *) echo;; esac", "fastpth: nobody knows this program"),
        ("FASTPATH_MODE=none fastpthd --check  # looks", "fastpthd: nobody knows this program"),
        ("pip install -r requirements-web.txt", "requirements-web.txt is not there"),
        ("python -c 'import'", "invalid syntax"),
    ],
)
def test_commands(text: str, fault: str) -> None:
    found = list(shell.faults(text))
    assert len(found) == 1
    assert fault in found[0]


def test_modules() -> None:
    """Each is asked itself, and a job of Spark with what it is started with."""
    text = (
        "python -m fastpath --chek\npython manage.py spark_job --keep lake --foldr x\npython -m fastpath --check # 1\n"
    )
    lines = list(shell.modules(text))
    assert [module for module, _ in lines] == ["fastpath", "spark.jobs.lake", "fastpath"]
    wrong, job, fine = command_lines.faults(lines)
    assert "--chek" in wrong
    assert "--foldr" in job or "required" in job
    assert fine == ""
    assert "No module named" in command_lines.faults([("fastpath.sidecar", [])])[0]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("client.subscribe('/a/b', (message) => {);", "SyntaxError"),
        ("client.subscrib('/a/b', () => {});", "client has no subscrib"),
        ("const client = connect({ urls: [], tokens: () => call({ a: 1 }), form });", "connect() has no option tokens"),
    ],
)
def test_scripts(text: str, fault: str, tmp_path: Path) -> None:
    found = list(scripts.faults(text, tmp_path))
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize(
    ("address", "is_there"),
    [
        ("wss://live.example.com/ws", True),
        ("http://127.0.0.1:8800/session/0-Zq8?n=1", True),
        ("/realtime/token/", True),
        ("/realtime/tokens/", False),
        ("/static/realtime/client.js", True),
        ("/static/realtime/client.ts", False),
        ("http://127.0.0.1:8000/admin/", True),
        ("http://127.0.0.1:8000/snapshots", False),
    ],
)
def test_addresses(address: str, is_there: bool) -> None:
    assert (not list(addresses.missing(address))) == is_there


def test_a_block_that_is_not_there_is_no_block() -> None:
    """Asked by another name, as this is no test that runs one."""
    ask, ask_all = one, every
    with pytest.raises(AssertionError, match="has 0 blocks sh"):
        ask("README.md", "sh", "make coffee")
    with pytest.raises(AssertionError, match="has no block"):
        ask_all("README.md", "sh", "make coffee")


def test_a_claim_is_read_out_of_a_test(tmp_path: Path) -> None:
    """By names of the module and of the function; what nobody can read is told."""
    file = tmp_path / "test_it.py"
    file.write_text(
        "PAGES = 'docs/develop'\n"
        "def test_it():\n"
        "    page = f'{PAGES}/testing.md'\n"
        "    one(page, 'python', 'OrderTests')\n"
        "    every('README.md', language='html')\n"
    )
    found = list(claims.in_file(file, tmp_path))
    assert [(claim.where, [block.heading for block in claim.blocks()]) for claim in found] == [
        ("test_it.py:4", ["Django's test cases"]),
        ("test_it.py:5", ["Your own view, your own page"]),
    ]
    file.write_text("def test_it(page):\n    one(page, 'python', 'OrderTests')\n")
    with pytest.raises(AssertionError, match="is no literal"):
        list(claims.in_file(file, tmp_path))
