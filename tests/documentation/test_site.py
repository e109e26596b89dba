"""The manual as a site: built without a complaint, whole, the same as the pages, and with nothing from elsewhere."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import expect, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS, new_context
from tests.support.realtime.server import ROOT
from tests.support.wheel import EPOCH, PROJECT

DOCS = ROOT / "docs"
BUILD_SECONDS_MAX = 100
SEARCH_SECONDS_MAX = 60
"""To read the index of all pages, which takes a second or two."""
QUICK_START = "quick-start.html"
LISTED = re.compile(r"^(?:\| |\* )\[[^\]]+\]\((\S+?)\.md\)", re.M)
"""The pages that a line of an index begins with."""

OUTSIDE = re.compile(r"(?:https?:)?//", re.I)
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""What a browser fetches by itself, and the attribute that says from where."""

BLOCKS = {"h1", "h2", "h3", "h4", "h5", "h6", "p", "li", "td", "th", "pre", "ul", "ol", "blockquote", "table"}
SPANS = {"code", "em", "strong", "img"}


def build(folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What the program said that builds the manual of a repository into a folder."""
    return subprocess.run(
        [root / "tools" / "manual.sh", folder],
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS_MAX,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manual of this checkout, one for all."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert (done.returncode, done.stdout) == (0, "")
    return folder


def pages(site: Path) -> set[str]:
    """All of them, by address; templates of examples are none."""
    found = (path.relative_to(site) for path in site.rglob("*.html"))
    return {str(path) for path in found if path.parts[0] != "examples"}


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of its styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.styles = ""
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self.styles += f" {dict(attrs).get('style') or ''}"
        self._is_style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Keep that of styles."""
        self.styles += data if self._is_style else ""


def elements(path: Path) -> Elements:
    """Of a built page."""
    return Elements(path.read_text(encoding="utf-8"))


def following(site: Path, page: str) -> str | None:
    """The page that `next` at its foot leads to."""
    links = [
        at for tag, at in elements(site / page).found if tag == "a" and "md-footer__link--next" in at.get("class", "")
    ]
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), links[0]["href"])) if links else None


def test_who_reads_on_comes_through_all_pages_in_the_order_of_the_index(site: Path) -> None:
    """The quick start comes first, the decisions come by number, and the pages of a folder come after its index."""
    read, page = [], "index.html"
    while page:
        assert page not in read
        read.append(page)
        page = following(site, page) or ""
    written = {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")}
    assert set(read) == pages(site)
    assert pages(site) <= written | {QUICK_START}
    index = [f"{name}.html" for name in LISTED.findall((DOCS / "index.md").read_text(encoding="utf-8"))]
    decisions = [name for name in index if "/decisions/" in name]
    assert len(decisions) > 40
    assert read[:2] == ["index.html", QUICK_START]
    others = [name for name in index if name not in decisions]
    assert [name for name in read if name in others] == others
    assert read[-len(decisions) :] == sorted(decisions)
    servers = read.index("operate/web-servers/index.html")
    folder = LISTED.findall((DOCS / "operate/web-servers/index.md").read_text(encoding="utf-8"))
    assert read[servers + 1 : servers + 1 + len(folder)] == [f"operate/web-servers/{name}.html" for name in folder]


def test_each_page_leads_to_its_neighbours_and_to_each_part(site: Path) -> None:
    """By what stands at its top and at its side; the first page is a list itself."""
    index = elements(site / "operate" / "dmz.html")
    links = {
        at["href"] for tag, at in index.found if tag == "a" and re.search("md-(nav|tabs)__link", at.get("class", ""))
    }
    parts = {"../index.html", f"../{QUICK_START}", "../develop/django.html", "../reference/features.html"}
    assert parts | {"install.html", "figures.html", "../explain/architecture.html"} <= links


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Neither by a page nor by a style sheet."""
    found, looked = [], 0
    for name in sorted(pages(site)):
        page = elements(site / name)
        loaded = [at[LOADING[tag]] for tag, at in page.found if tag in LOADING and LOADING[tag] in at]
        looked += len(loaded)
        found += [(name, address) for address in loaded if OUTSIDE.match(address)]
        found += [(name, address) for address in styled(page.styles) if OUTSIDE.match(address)]
    sheets = sorted(site.rglob("*.css"))
    for sheet in sheets:
        addresses = styled(sheet.read_text(encoding="utf-8"))
        found += [(sheet.name, address) for address in addresses if OUTSIDE.match(address)]
    assert looked > 4 * len(pages(site))
    assert len(sheets) >= 3
    assert found == []


def styled(text: str) -> list[str]:
    """What a style sheet loads."""
    return re.findall(r"""(?:url\(|@import\s+)\s*["']?([^"')\s]+)""", text)


def test_what_is_linked_is_there(site: Path) -> None:
    """Files beside the pages as well, such as units and examples."""
    missing, looked = [], 0
    for name in pages(site):
        page = elements(site / name)
        for tag, at in page.found:
            parts = urlsplit(at.get("href", "") if tag == "a" else at.get("src", "") if tag == "img" else "")
            if not parts.scheme and parts.path:
                looked += 1
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
                if not (site / target).is_file():
                    missing.append((name, parts.path))
    assert looked > 1000
    assert missing == []
    assert (site / "operate/systemd/fastpath.service").read_bytes() == (
        DOCS / "operate/systemd/fastpath.service"
    ).read_bytes()


def test_the_search_knows_what_pages_say(site: Path) -> None:
    """Served by a web server, and as a script for pages that are opened from a disk."""
    served = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    known = {entry["location"]: entry for entry in json.loads(served)["docs"]}
    assert known["operate/dmz.html"]["title"] == "In a DMZ"
    assert "kill -HUP" in known[f"{QUICK_START}#your-own-view-your-own-page"]["text"]
    assert {location.partition("#")[0] for location in known} == pages(site)
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8") == f"var __index = {served}"


class Structure(HTMLParser):
    """What a page shows, as lines: its blocks, and their text with what is code or stressed in it."""

    def __init__(self, text: str, *, within: str = "") -> None:
        super().__init__()
        self._within, self._is_shown, self._skipped = within, not within, ""
        self._parts: list[list[str]] = [["", ""]]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins, or a part of a text."""
        self._is_shown = self._is_shown or tag == self._within
        if "headerlink" in (dict(attrs).get("class") or ""):
            self._skipped = tag
        if tag in BLOCKS and self._is_shown:
            self._parts.append([tag, ""])
        elif tag in SPANS:
            self.handle_data(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        """A block ends, or a part of a text."""
        if tag in BLOCKS and self._is_shown:
            self._parts.append([f"/{tag}", ""])
        elif tag in SPANS:
            self.handle_data(f"</{tag}>")
        self._is_shown = self._is_shown and tag != self._within
        self._skipped = self._skipped if tag != self._skipped else ""

    def handle_data(self, data: str) -> None:
        """Text of the block that is open."""
        if self._is_shown and not self._skipped:
            self._parts[-1][1] += data

    def lines(self) -> list[str]:
        """Paragraphs are no blocks: a list has them or not. White space counts nowhere but at the beginning of code."""
        found = []
        for tag, text in self._parts:
            if tag == "pre":
                found.append(f"pre {re.sub('</?code>', '', text).expandtabs(4).strip()}")
            else:
                flat = re.sub(r"\s+(?=</code>)", "", " ".join(text.split()))
                found += [] if tag in {"p", "/p", ""} else [tag]
                found += [flat] if flat else []
        return found


def test_pages_look_as_they_do_elsewhere(site: Path) -> None:
    """The site has its own reader of Markdown; one of CommonMark sees the same headings, lists, tables and code."""
    common = MarkdownIt("commonmark").enable("table")
    for name in sorted(pages(site)):
        source = ROOT / "README.md" if name == QUICK_START else DOCS / Path(name).with_suffix(".md")
        theirs = Structure(common.render(source.read_text(encoding="utf-8"))).lines()
        ours = Structure((site / name).read_text(encoding="utf-8"), within="article").lines()
        assert ours == theirs, name
        assert len(ours) > 3


FOLDER = DOCS.name
"""Of the pages; those below are in no other repository than the small one."""

REPOSITORY = "https://code.example.org/fastpath"
README = f"# Quick\n\n[One]({FOLDER}/start/one.md), [all]({FOLDER}/index.md), [words](LICENSE).\n\n## More\n"
INDEX = """# Manual

From [the start](../README.md), as [licensed](../LICENSE "words"), by [code](../tools/manual/hooks.py#L1).

## Start: see it

| page | what |
|---|---|
| [one](start/one.md) | [again](start/one.md#what-is-it) |
"""
ONE = """# One

## What is it?

A [unit](../files/a.service), all [units](../files), `[code](../../LICENSE)`, and [the start](../../README.md#more).
"""


def repository(folder: Path, project: str) -> Path:
    """A small one, with a manual of its own, that is built by the same program."""
    texts = {
        "README.md": README,
        "LICENSE": "words",
        ".gitignore": "var/\n/.venv\n",
        "pyproject.toml": f'[project]\nversion = "7.1"\n{project}',
        f"{FOLDER}/index.md": INDEX,
        f"{FOLDER}/start/one.md": ONE,
        f"{FOLDER}/files/a.service": "[Unit]\n",
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "tools" / "manual", folder / "tools" / "manual")
    shutil.copy2(ROOT / "tools" / "manual.sh", folder / "tools" / "manual.sh")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run it there."""
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def shown(site: Path, page: str) -> str:
    """The article of a page."""
    found = re.search("<article.*</article>", (site / page).read_text(encoding="utf-8"), re.S)
    assert found
    return found[0]


def test_links_out_of_the_manual_lead_to_the_repository(tmp_path: Path) -> None:
    """Where the project names its address; what is in the manual is linked there all the same."""
    root = repository(tmp_path / "here", f'urls = {{ Repository = "{REPOSITORY}/" }}\n')
    done = build(tmp_path / "site", root)
    assert (done.returncode, done.stdout) == (0, "")
    index, one, quick = (shown(tmp_path / "site", name) for name in ("index.html", "start/one.html", QUICK_START))
    assert f'<a href="{QUICK_START}">the start</a>' in index
    assert f'<a href="{REPOSITORY}/blob/HEAD/LICENSE" title="words">licensed</a>' in index
    assert f'<a href="{REPOSITORY}/blob/HEAD/tools/manual/hooks.py#L1">code</a>' in index
    assert '<a href="start/one.html#what-is-it">again</a>' in index
    assert '<a href="../files/a.service">unit</a>' in one
    assert f'<a href="{REPOSITORY}/tree/HEAD/docs/files">units</a>' in one
    assert "<code>[code](../../LICENSE)</code>" in one
    assert f'<a href="../{QUICK_START}#more">the start</a>' in one
    assert '<a href="start/one.html">One</a>' in quick
    assert f'<a href="{REPOSITORY}/blob/HEAD/LICENSE">words</a>' in quick


def test_without_an_address_they_are_text_and_drafts_are_left_out(tmp_path: Path) -> None:
    """Also what git ignores, such as a database that an example has left; a new page counts once it is listed."""
    root = repository(tmp_path / "here", "")
    for name in ("draft.md", "start/two.md", "start/var/two.md", "var/db.sqlite3", "new.txt"):
        (root / FOLDER / name).parent.mkdir(exist_ok=True)
        (root / FOLDER / name).write_text("# Two\n\nIt is [gone](nowhere.md).\n" if "draft" in name else "# Two\n")
    with (root / FOLDER / "index.md").open("a") as index:
        index.write("| [two](start/two.md) | more |\n")
    done = build(tmp_path / "site", root)
    assert (done.returncode, done.stdout) == (0, "")
    shows = shown(tmp_path / "site", "index.html")
    assert '<span title="LICENSE">licensed</span>' in shows
    assert f'<span title="{FOLDER}/files">units</span>' in shown(tmp_path / "site", "start/one.html")
    assert pages(tmp_path / "site") == {"index.html", QUICK_START, "start/one.html", "start/two.html"}
    assert (tmp_path / "site" / "new.txt").exists()
    assert not (tmp_path / "site" / "var").exists()


def test_what_is_wrong_with_a_page_is_an_error(tmp_path: Path) -> None:
    """A page that no index lists, a link and an anchor that lead nowhere, inside the manual and out of it."""
    root = repository(tmp_path / "here", "")
    (root / FOLDER / "start/two.md").write_text(
        "# Two\n\n[a](three.md), [b](one.md#what), [c](../../gone.txt), [d](#no).\n"
    )
    git(root, "add", "--all")
    done = build(tmp_path / "site", root)
    assert done.returncode != 0
    assert re.findall(r"^ +- start/two\.md$", done.stdout, re.M)
    for link in ("three.md", "one.md#what", "../../gone.txt", "#no"):
        assert f"'{link}'" in done.stdout, link
    assert "Aborted with 5 warnings" in done.stdout


@pytest.mark.slow
@pytest.mark.browser
def test_it_is_read_from_a_disk_and_on_a_phone(site: Path) -> None:
    """Search, copy buttons, dark and light work there; a wide table scrolls, and not the page."""
    told: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = new_context(browser, viewport={"width": 390, "height": 844}, color_scheme="dark")
        page = context.new_page()
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith("file://") else told.append(request.url))
        for name in ("reference/settings.html", "operate/figures.html", "explain/benchmarks.html", "index.html"):
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == 390, name
        page.goto((site / "operate" / "figures.html").as_uri())
        wide = "[...document.querySelectorAll('.md-typeset__table')].some(e => e.parentElement.scrollWidth > 390)"
        assert page.evaluate(wide)
        expect(page.locator("button.md-code__button").first).to_be_attached()
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        page.emulate_media(color_scheme="light")
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "default")
        page.locator("label[for=__search]").first.click()
        page.locator(".md-search__input").press_sequentially("two firewalls")
        first = page.locator(".md-search-result__link").first
        expect(first).to_have_attribute("href", re.compile("dmz.html"), timeout=SEARCH_SECONDS_MAX * 1000)
        browser.close()
    assert told == []


def test_the_header_names_the_version(site: Path) -> None:
    assert f"<title>Fastpath {PROJECT['version']}</title>" in (site / "index.html").read_text(encoding="utf-8")
    header = re.search("<header.*?</header>", (site / "operate/dmz.html").read_text(encoding="utf-8"), re.S)
    assert header
    assert f"Fastpath {PROJECT['version']}" in header[0]
