"""Blocks of JavaScript and HTML: their syntax by Node's own parser, and each name of the client's that they use."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.browser.node import NODE
from tests.support.realtime.server import ROOT

TYPES = (ROOT / "realtime/static/realtime/client.d.ts").read_text(encoding="utf-8")


def names(interface: str) -> set[str]:
    """The members of an interface of the client's type declarations."""
    found = re.search(rf"^export interface {interface} \{{$(.*?)^\}}$", TYPES, re.DOTALL | re.MULTILINE)
    assert found, interface
    return set(re.findall(r"^  (?:readonly )?(\w+)[?(:<]", found[1], re.MULTILINE))


def scripts(text: str) -> str:
    """The modules of a page of HTML, one after the other; AssertionError, if it has a script of another form."""
    found = re.findall(r'<script type="module">\n(.*?)</script>', text, re.DOTALL)
    files = re.findall(r'<script type="module" src="[^>]*></script>', text)
    assert len(found) + len(files) == text.count("<script"), "a script that is none of these"
    return "\n".join(found)


def faults(text: str, folder: Path) -> Iterator[str]:
    """What is wrong with a module."""
    file = folder / "block.mjs"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([NODE, "--check", str(file)], capture_output=True, text=True, timeout=30)
    if done.returncode:
        yield next(line for line in done.stderr.splitlines() if "Error" in line)
        return
    for name in re.findall(r"\bclient\.(?!js\b)(\w+)", text):
        if name not in names("Client"):
            yield f"client has no {name}"
    for options in re.findall(r"connect\(\{(.*?)\}\);", text, re.DOTALL):
        flat = re.sub(r"\([^()]*\)|\{[^{}]*\}", "", re.sub(r"\([^()]*\)|\{[^{}]*\}|//.*", "", options))
        for name in re.findall(r"(?:^|,)\s*(\w+)\s*(?=[:,]|$)", flat):
            if name not in names("Options"):
                yield f"connect() has no option {name}"
