"""Each code block of the pages is run by a test, or checked as what it is, or has a reason beside it why it is not."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from fastpath.settings import PREFIX, Settings
from tests.support.documentation import addresses, command_lines, python_code, scripts, shell
from tests.support.documentation.claims import claims
from tests.support.guide import Block, read
from tests.support.realtime.server import ROOT

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
BLOCKS = [block for page in PAGES for block in read(page)]
SHELLS = {"sh": str, "bash": str, "console": shell.transcript}
PYTHONS = {"python": str, "pycon": python_code.transcript}
SCRIPTS = {"js": str, "html": scripts.scripts}
DATA = {"json", "toml", "ini", "yaml", "env"}
CHECKED = {*SHELLS, *PYTHONS, *SCRIPTS, *DATA}
"""Languages whose blocks are checked as what they are; of others, each is run or excused."""


def where(block: Block) -> str:
    """As an editor opens it."""
    return f"{block.page}:{block.line}"


def of(kinds: object) -> list[Block]:
    """The blocks in languages."""
    return [block for block in BLOCKS if block.language in kinds]  # type: ignore[operator]


def told(block: Block, faults: Iterator[str] | list[str]) -> list[str]:
    """Faults with the place of the block."""
    return [f"{where(block)}: {fault}" for fault in faults]


def test_each_block_is_run_or_checked_or_excused() -> None:
    """What is excused is neither: a reason that is no more true goes."""
    run = {(block.page, block.line) for claim in claims() for block in claim.blocks()}
    assert len(run) > 95
    bare = [where(block) for block in BLOCKS if not block.language]
    assert bare == [], "a block says its language; `console` is a session, `text` is no language"
    covered = {(block.page, block.line) for block in BLOCKS if block.language in CHECKED} | run
    missing = [where(one) for one in BLOCKS if not one.excuse and (one.page, one.line) not in covered]
    assert missing == [], "nobody runs these, and no comment `<!-- not run: why -->` stands right above"
    assert [where(one) for one in BLOCKS if one.excuse and (one.page, one.line) in covered] == []


def test_python_is_what_the_code_takes(tmp_path: Path) -> None:
    """Syntax, imports, attributes and arguments of what is ours, and no name out of nowhere."""
    texts = {f"block_{number}": PYTHONS[one.language](one.text) for number, one in enumerate(of(PYTHONS))}
    found = [
        fault
        for block, text in zip(of(PYTHONS), texts.values(), strict=True)
        for fault in told(block, python_code.faults(text))
    ]
    places = dict(zip(texts, map(where, of(PYTHONS)), strict=True))
    nowhere = [
        (name, said) for name, _, said in (one.partition(": ") for one in python_code.undefined(texts, tmp_path))
    ]
    assert found + [f"{places[name]}: {said}" for name, said in nowhere] == []


def test_commands_are_what_the_programs_take() -> None:
    """Their syntax, programs and options; each option of ours is read by the parser that will read it."""
    texts = {where(block): SHELLS[block.language](block.text) for block in of(SHELLS)}
    found = [f"{place}: {fault}" for place, text in texts.items() for fault in shell.faults(text)]
    lines = [(place, *line) for place, text in texts.items() for line in shell.modules(text)]
    assert len(lines) > 30
    said = command_lines.faults([(module, words) for _, module, words in lines])
    refused = [f"{line[0]}: python -m {line[1]}: {fault}" for line, fault in zip(lines, said, strict=True) if fault]
    assert found + refused == []


@pytest.mark.browser
def test_scripts_are_what_the_client_takes(tmp_path: Path) -> None:
    assert len(of(SCRIPTS)) > 5
    assert [
        fault
        for block in of(SCRIPTS)
        for fault in told(block, scripts.faults(SCRIPTS[block.language](block.text), tmp_path))
    ] == []


def data(block: Block) -> object:
    """What a block of data says; `…` stands for more of the same kind."""
    text = re.sub(r",\s*…", "", block.text)
    if block.language == "json":
        try:
            return json.loads(text)
        except json.JSONDecodeError:  # a line each
            return [json.loads(line) for line in text.splitlines()]
    if block.language == "toml":
        return tomllib.loads(text)
    if block.language == "yaml":
        return yaml.safe_load(text)
    if block.language == "env":
        return dict(re.fullmatch(r"(\w+)=(.*)", line).groups() for line in text.splitlines() if line[0] != "#")  # type: ignore[union-attr, misc]
    ini = configparser.ConfigParser(interpolation=None)
    ini.read_string(f"[top]\n{text}")
    return ini.sections()


@pytest.mark.parametrize("block", of(DATA), ids=where)
def test_data_is_of_its_language(block: Block) -> None:
    assert data(block)


def test_settings_are_settings() -> None:
    """Of the sidecar, of this repository's project, and of the programs of `spark`."""
    known = {f"{PREFIX}{one.name.upper()}" for one in fields(Settings)}
    for folder in ("realtime", "entitlement", "spark", "pyspark_fastpath", "docs/examples"):
        for path in (ROOT / folder).rglob("*.py"):
            known |= set(re.findall(r'"((?:REALTIME|FASTPATH)_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    named = [
        (where(one), name) for one in BLOCKS for name in re.findall(r"\b(?:FASTPATH|REALTIME)_[A-Z_]+\b", one.text)
    ]
    assert len(named) > 30
    assert [(place, name) for place, name in named if name not in known] == []


def test_addresses_are_there() -> None:
    """Those with a scheme in blocks of all languages, and paths in scripts."""
    whole = re.compile(r"\b(?:https?|wss?)://[^\s\"'`|)>,;]+")
    paths = re.compile(r"[\"'](/(?:static/realtime|realtime|api)/[^\"']*)[\"']")
    named = [(where(one), url) for one in of(CHECKED) for url in whole.findall(one.text)]
    named += [(where(one), path) for one in of(SCRIPTS) for path in paths.findall(one.text)]
    assert len(named) > 50
    assert [f"{place}: {fault}" for place, url in named for fault in addresses.missing(url)] == []
