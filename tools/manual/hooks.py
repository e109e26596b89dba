"""What MkDocs asks for the manual: name and version, its files and their order, and where links out of it lead.

The navigation is made of docs/index.md, so that there is one list of pages.
"""

from __future__ import annotations

import importlib.metadata
import posixpath
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

INDEX = "index.md"
QUICK_START = "quick-start.md"
"""The README's name in the manual."""
FIRST_SECTION = "Start"
_SECTION = re.compile(r"^## (.+)$", re.M)
_LISTED = re.compile(r"^(?:\| |\* )\[([^\]]+)\]\(([^)#\s]+\.md)\)", re.M)
_NUMBERED = re.compile(r"(\d{4})-")


def _root(config: MkDocsConfig) -> Path:
    """Return the repository's folder."""
    return Path(config.docs_dir).parent


def _entry(docs: Path, name: str, label: str) -> Any:
    """Return a page as the navigation has it; one that is the index of a folder brings the pages that it lists."""
    page = docs / name
    if posixpath.basename(name) == INDEX:
        text = page.read_text(encoding="utf-8")
        heading = re.search(r"^# (.+)$", text, re.M)
        return {heading[1] if heading else label: [name, *_entries(docs, posixpath.dirname(name), text)]}
    number = _NUMBERED.match(posixpath.basename(name))
    return {f"{int(number[1])}. {label}": name} if number else name


def _entries(docs: Path, folder: str, text: str) -> list[Any]:
    """Return the pages that the tables and lists of a text begin a row with, in their order; numbered ones by
    number."""
    listed = [
        (posixpath.normpath(posixpath.join(folder, name)), " ".join(label.split()))
        for label, name in _LISTED.findall(text)
    ]
    if all(_NUMBERED.match(posixpath.basename(name)) for name, _ in listed):
        listed.sort()
    return [_entry(docs, name, label) for name, label in listed]


def navigation(docs: Path) -> list[Any]:
    """Return the sections of docs/index.md with their pages; a heading without a colon belongs to the section before
    it."""
    _, *parts = _SECTION.split((docs / INDEX).read_text(encoding="utf-8"))
    found: list[Any] = [INDEX]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        title, colon, _ = heading.partition(":")
        entries = _entries(docs, "", text)
        if colon:
            found.append({title: [{"Quick start": QUICK_START}, *entries] if title == FIRST_SECTION else entries})
        elif entries:
            (pages,) = found[-1].values()
            pages.append({title: entries})
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name, version, navigation; links are led out of the manual before MkDocs looks at them."""
    project = tomllib.loads((_root(config) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    # It would have to know the address that the site is at.
    config.theme.static_templates.discard("404.html")
    config.nav = navigation(Path(config.docs_dir))
    config.extra["repository"] = project.get("urls", {}).get("Repository", "")
    config.markdown_extensions.append(_Leaving(config))  # type: ignore[arg-type]
    return config


def _names(root: Path, *options: str) -> set[str]:
    """Return the files of docs that git lists, from docs."""
    argv = ["git", "ls-files", "-z", *options, "--", "."]
    try:
        said = subprocess.run(argv, cwd=root / "docs", capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise PluginError(f"git has to say which files belong to the manual: {error}") from error
    return set(filter(None, said.split("\0")))


def _listed(entries: Any) -> set[str]:
    """Return the names of all pages in a navigation."""
    if isinstance(entries, str):
        return {entries}
    return set().union(*map(_listed, entries.values() if isinstance(entries, dict) else entries))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take away what git ignores, as what examples leave where they ran, and drafts.

    A draft is a page that git does not have and that docs/index.md does not list; all other pages have to be listed.
    """
    root = _root(config)
    files.append(File.generated(config, QUICK_START, abs_src_path=str(root / "README.md")))
    tracked, new = _names(root), _names(root, "--others", "--exclude-standard")
    for file in list(files.documentation_pages()) + list(files.media_files()):
        is_ours = file.src_uri in tracked or file.src_uri in new
        is_draft = file.is_documentation_page() and file.src_uri not in tracked | _listed(config.nav)
        if file.src_dir == config.docs_dir and (is_draft or not is_ours):
            files.remove(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Say which page is converted next; its text stays as it is."""
    (leaving,) = (one for one in config.markdown_extensions if isinstance(one, _Leaving))
    leaving.page, leaving.files = page.file.src_uri, files
    if page.file.src_uri == INDEX:
        page.meta["hide"] = ["navigation"]  # it is the navigation
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Put the licences beside what is under them: the pages, and the theme's scripts and styles."""
    site = Path(config.site_dir)
    (site / "LICENSE").write_bytes((_root(config) / "LICENSE").read_bytes())
    theme = importlib.metadata.distribution("mkdocs-material").read_text("licenses/LICENSE")
    if theme is None:
        raise PluginError("mkdocs-material is installed without its licence")
    (site / "assets" / "LICENSE").write_text(theme, encoding="utf-8")


class _Leaving(Extension):
    """Leads links out of the manual to the repository's address, or, where none is known, makes them plain text."""

    def __init__(self, config: MkDocsConfig) -> None:
        super().__init__()
        self.page = ""
        self.files = Files([])
        self._root = _root(config)
        self._repository = config.extra["repository"].rstrip("/")

    def extendMarkdown(self, md: Markdown) -> None:
        """Right before MkDocs makes its own of the links, which is at 0."""
        md.treeprocessors.register(_Links(md, self), "leaving", 1)

    def lead(self, link: Element) -> None:
        """Change a link in place, if it leads to a file or folder that is there and not where the page says it is."""
        parts = urlsplit(link.get("href", ""))
        name = self._named(parts)
        if not name:
            return
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        within = QUICK_START if name == "README.md" else name.removeprefix("docs/")
        if (name == "README.md" or name.startswith("docs/")) and self.files.get_file_from_path(within):
            link.set("href", posixpath.relpath(within, posixpath.dirname(self.page) or ".") + anchor)
        elif self._repository:
            kind = "tree" if (self._root / name).is_dir() else "blob"
            link.set("href", f"{self._repository}/{kind}/HEAD/{name}{anchor}")
        else:
            link.tag = "span"
            link.attrib.clear()
            link.set("title", name)

    def show(self, picture: Element) -> None:
        """Have the README's picture looked for where the manual has it."""
        name = self._named(urlsplit(picture.get("src", "")))
        within = name.removeprefix("docs/")
        if within != name and self.files.get_file_from_path(within):
            picture.set("src", posixpath.relpath(within, posixpath.dirname(self.page) or "."))

    def _named(self, parts: SplitResult) -> str:
        """Return the file or folder of the repository that an address on the page leads to; empty where it is none, of
        which MkDocs tells."""
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return ""
        folder = "" if self.page == QUICK_START else posixpath.join("docs", posixpath.dirname(self.page))
        name = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
        return "" if name.startswith("../") or not (self._root / name).exists() else name


class _Links(Treeprocessor):
    """Shows the links of a page to who leads them."""

    def __init__(self, md: Markdown, leaving: _Leaving) -> None:
        super().__init__(md)
        self._leaving = leaving

    def run(self, root: Element) -> None:
        """Lead each link, and show each picture."""
        for link in list(root.iter("a")):
            self._leaving.lead(link)
        for picture in root.iter("img"):
            self._leaving.show(picture)
