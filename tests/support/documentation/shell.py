"""Blocks of shell commands: their syntax, and each command of ours with the parser that will read its words."""

from __future__ import annotations

import argparse
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from typing import Any

from django.core.management import CommandError, get_commands, load_command_class

from tests.support.documentation.addresses import missing
from tests.support.realtime.server import ROOT

FOREIGN = {
    ".", "apachectl", "apt-get", "a2enmod", "a2ensite", "awk", "cat", "cd", "chmod", "cp", "docker", "echo", "go",
    "granian", "grep", "gunicorn", "helm", "hypercorn", "install", "iptables", "javac", "jconsole", "jq", "kill",
    "kubectl", "ln", "mkdir", "mosquitto_pub", "mosquitto_sub", "mv", "openssl", "pgrep", "printf", "ps", "redis-cli",
    "redis-server", "ruby", "seq", "sort", "spark-submit", "systemctl", "systemd-run", "tail", "umask", "uniq",
    "useradd", "uvicorn", "zcat",
}  # fmt: skip
"""Programs of others that the pages name."""
KEYWORDS = {"do", "done", "esac", "if", "then", "fi", "exec", "export", "set"}
OF_A_READER = {
    "manage.py": {"say", "scan"},
    "-m": {"spark.jobs.spread", "parcels.counts", "django", "venv", "pytest", "pyspark_fastpath"},
}
"""Commands that are not read here: those of docs/examples, what a guide has its reader write; one has no options."""
_HEREDOC = re.compile(r"<<-?'?(\w+)'?(.*?)\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
_WITHIN = re.compile(r"[$<]\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_CASE = re.compile(r"\bcase \S+ in (.*?)\besac\b", re.DOTALL)
_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def transcript(text: str) -> str:
    """What is typed in a session, after `$ `; AssertionError, if nothing is."""
    typed = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert typed, "nothing is typed"
    return "".join(f"{line}\n" for line in typed)


def faults(text: str) -> Iterator[str]:
    """What is wrong with the commands, but for those of ``modules``; none is run."""
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=20)
    if done.returncode:
        yield done.stderr.strip()
        return
    for name, *words in commands(text):
        yield from _faults_of(name, [word for word in words if word != "…"])


def modules(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `python -m` with its words, and each job of Spark that `spark_job` starts with its own."""
    for name, *words in commands(text):
        if "…" in words:  # they are not all there
            continue
        if _is_python(name) and words[0] == "-m" and words[1] not in OF_A_READER["-m"]:
            yield words[1], words[2:]
        if "spark_job" in words[:2]:
            options = _options("spark_job", words[words.index("spark_job") + 1 :])
            if options.name:
                yield f"spark.jobs.{options.name}", ["--url", "h:1", *options.arguments]


def commands(text: str) -> Iterator[list[str]]:
    """Each simple command as its words, those in `$(…)` too; a variable, and what `$(…)` gives, is the word `1`."""
    text = _HEREDOC.sub(lambda match: match[2], text.replace("\\\n", " "))
    text = _CASE.sub(lambda match: re.sub(r"(^|;;) *[\w*]+\)", ";", match[1]).replace(";;", ";"), text)
    parts = []
    while match := _WITHIN.search(text):
        parts.append(match[1])
        text = f"{text[: match.start()]}1{text[match.end() :]}"
    for part in [text, *parts]:
        words: list[str] = []
        for word in [*_words(re.sub(r"\$\{?\w+\}?", "1", part)), ";"]:
            if word and set(word) <= set(";|&()"):
                yield from filter(None, [list(_bare(words))])
                words = []
            else:
                words.append(word)


def _words(text: str) -> Iterator[str]:
    """Words, operators and redirections; the end of a line is a `;`, as no word has it that is not quoted."""
    pending = ""
    for line in text.splitlines():
        pending = f"{pending}{line}\n"
        try:
            lexer = shlex.shlex(pending, posix=True, punctuation_chars=";|&()<>")
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:  # a quotation goes on
            continue
        yield from words
        if not words or set(words[-1]) - set("|&"):
            yield ";"
        pending = ""


def _bare(words: list[str]) -> Iterator[str]:
    """Without the assignments and keywords before the program, and without redirections."""
    given = iter(words)
    begun = False
    for word in given:
        if word and set(word) <= set("<>"):
            next(given, None)
        elif begun or not (re.match(r"\w+=", word) or word in KEYWORDS):
            if word in ("for", "case") and not begun:
                return
            begun = True
            yield word


def _faults_of(name: str, words: list[str]) -> Iterator[str]:
    if _is_python(name):
        yield from _python(words)
    elif name == "fastpath-manage" or name == "django-admin":
        yield from manage(words)
    elif name == "make":
        yield from _make(words)
    elif name == "curl":
        yield from (fault for word in words if re.match("https?://", word) for fault in missing(word))
    elif re.fullmatch(r"(\S*/)?pip", name):
        files = [word for option, word in pairwise(words) if option in ("-r", "-c")]
        yield from (f"{file} is not there" for file in files if not (ROOT / file).exists())
    elif name not in FOREIGN and not name.startswith(("/usr/", "/etc/")):
        yield f"{name}: nobody knows this program"


def _is_python(name: str) -> bool:
    return re.fullmatch(r"(\S*/)?python3?", name) is not None


def _python(words: list[str]) -> Iterator[str]:
    first, *rest = words
    if first == "-c":
        try:
            compile(rest[0], "-c", "exec")
        except SyntaxError as error:
            yield f"python -c: {error}"
    elif first.endswith("manage.py"):
        yield from manage(rest)
    elif first.endswith(".py") and not (ROOT / first).exists():
        yield f"{first} is not there"


def manage(words: list[str]) -> Iterator[str]:
    """What a command of Django would say of its command line."""
    name, *rest = words
    if name in OF_A_READER["manage.py"] or "--help" in rest:
        return
    if name not in get_commands():
        yield f"manage.py has no {name}"
        return
    try:
        _options(name, rest)
    except CommandError as error:
        yield f"manage.py {shlex.join(words)}: {error}"


def _options(name: str, words: list[str]) -> argparse.Namespace:
    found: Any = get_commands()[name]
    command = load_command_class(found, name) if isinstance(found, str) else found
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        options: argparse.Namespace = command.create_parser("manage.py", name).parse_args(words)
    return options


def _make(words: list[str]) -> Iterator[str]:
    targets = set(re.findall(r"^([\w-]+):", _MAKEFILE, re.MULTILINE))
    variables = set(re.findall(r"\$\((?:if \$\()?([A-Z]+)\b", _MAKEFILE))
    for word in words:
        name, is_variable, _ = word.partition("=")
        if name not in (variables if is_variable else targets):
            yield f"make has no {name}"
