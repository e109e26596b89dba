"""The documentation holds together: links, anchors, a way to every page, lines of 120, and what the code cites."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted(DOCS.rglob("*.md")),
]
CITING = ("entitlement", "fastpath", "realtime", "spark", "pyspark_fastpath", "templates", "tests", "tools", "docs")
WIDTH = 120
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"(?<![\w/.-])docs/[\w./-]*\w")
_RULES = re.compile(r"features\.md ([A-I]\d+(?:, [A-I]\d+)*)")
_OWN = "tests/test_docs.py"
_FOLDERS = "fastpath|realtime|entitlement|spark|pyspark_fastpath"
_MODULE = re.compile(
    rf"(?<![\w/.-])(?:(?:{_FOLDERS})/(?:[\w.-]+/)*[\w-]+\.py|(?:edge|core|engine)/[\w./-]*\w)(?![\w*])"
)
_DOTTED = re.compile(rf"(?:\bpython3? -m |\bfrom |^\s*import )((?:{_FOLDERS})(?:\.[a-z_]\w*)*)", re.M)
_OF_A_READER = {"spark.jobs.spread"}
"""Modules that a guide has its reader write."""


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers, without code blocks, tables and what a tool writes."""
    is_code = is_written = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        text = line.lstrip()
        if text.startswith("```"):
            is_code = not is_code
        elif not is_code and re.fullmatch(r"<!-- (?!not run: ).* -->", text):
            is_written = not is_written
        elif not (is_code or is_written or text.startswith("|")):
            yield number, line


def anchors(page: Path) -> list[str]:
    """What a link to a heading of the page may name, as GitHub makes it of the heading's text."""
    headings = [line.lstrip("#").strip() for _, line in prose(page) if re.match(r"#+ ", line)]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return [re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain]


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """The relative links of a page: each as written, the file or folder, and the anchor."""
    for written in _LINK.findall(re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)):
        if not re.match(r"\w+:|/", written):
            path, _, anchor = written.partition("#")
            yield written, (page.parent / path).resolve() if path else page, anchor


def sources() -> Iterator[tuple[str, str]]:
    """The text of every file that may cite a page, by its path."""
    named = [path for folder in CITING for path in sorted((ROOT / folder).rglob("*"))]
    for path in [*named, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        if path.is_file() and path.suffix not in {".pyc", ".svg"} and "node_modules" not in path.parts:
            try:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for written, target, anchor in links(page):
        assert target.exists(), written
        assert not anchor or anchor in anchors(target), written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_heading_is_named_once(page: Path) -> None:
    """A second one of the same text would have another anchor than its text says."""
    found = anchors(page)
    if page.name != "CHANGELOG.md":
        assert sorted(found) == sorted(set(found))


def test_the_index_leads_to_every_page() -> None:
    seen, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page not in seen:
            seen.add(page)
            ahead += [target for _, target, _ in links(page) if target.suffix == ".md" and target.is_relative_to(DOCS)]
    assert set(DOCS.rglob("*.md")) - seen == set()


def test_the_index_and_the_readme_list_the_same_pages() -> None:
    """The decisions are listed in the index alone, and the index in the README alone."""

    def listed(page: Path) -> list[Path]:
        rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
        return [(page.parent / match[1]).resolve() for row in rows if (match := re.search(r"\]\((.*?)\)", row))]

    assert listed(ROOT / "README.md") == listed(DOCS / "index.md")


def test_the_changelog_knows_the_version() -> None:
    """As a heading once it is released, with its date; until then as the next one."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[0] == "Unreleased"
    assert released[0] == version if released else f"The first will be {version}," in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_no_longer_than_the_page(page: Path) -> None:
    """Longer is only what cannot be broken: one word, as a message in its wire form."""
    assert [number for number, line in prose(page) if len(line) > WIDTH and " " in line.strip()] == []


@pytest.mark.parametrize("name", ["explain/benchmarks.md", "operate/reliability.md"])
def test_what_was_measured_names_its_revision(name: str) -> None:
    """Below each heading that has a table of results; where it was not recorded, which revision brought them."""
    sections = re.split(r"^(?=## )", (DOCS / name).read_text(encoding="utf-8"), flags=re.M)
    measured = [one for one in sections if re.search(r"^\|.*\d.*\d.*\|$", one, re.M)]
    assert len(measured) >= 2
    assert [one.splitlines()[0] for one in measured if not re.search(r"\brevision\b", one, re.I)] == []


def test_the_pages_that_files_cite_are_there() -> None:
    cited = [(file, path) for file, text in sources() if file != _OWN for path in _PATH.findall(text)]
    assert len(cited) > 50
    assert [(file, path) for file, path in cited if not (ROOT / path).exists()] == []


def test_the_rules_that_files_cite_have_their_headings() -> None:
    page = (DOCS / "reference" / "features.md").read_text(encoding="utf-8")
    ruled = set(re.findall(r"^### ([A-I]\d+) ", page, flags=re.M))
    cited = [
        (file, rule)
        for file, text in sources()
        if file != _OWN
        for rules in _RULES.findall(text)
        for rule in rules.split(", ")
    ]
    assert len(cited) > 30
    assert [(file, rule) for file, rule in cited if rule not in ruled] == []


def test_the_modules_that_pages_name_are_there() -> None:
    """As a path from the root, or of the sidecar from `fastpath/`, or dotted in a command or an import."""
    pages = {
        str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES if page.name != "CHANGELOG.md"
    }
    paths = [(name, path) for name, text in pages.items() for path in _MODULE.findall(text)]
    dotted = [(name, module) for name, text in pages.items() for module in _DOTTED.findall(text)]
    assert len(paths) > 20
    assert len(dotted) > 20
    assert [one for one in paths if not any((ROOT / folder / one[1]).exists() for folder in ("", "fastpath"))] == []
    files = [(name, ROOT.joinpath(*module.split("."))) for name, module in dotted if module not in _OF_A_READER]
    assert [one for one in files if not (one[1].is_dir() or one[1].with_suffix(".py").exists())] == []
