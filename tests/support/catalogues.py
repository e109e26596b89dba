"""The catalogues of texts: what stands in them, what the sources ask for, and what of a page a reader sees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from django.utils.translation.template import templatize

from tests.support.realtime.server import ROOT

APPS = ("entitlement", "realtime")
LANGUAGES = ("de", "fr")

NOT_TRANSLATED = ("realtime/demo", "realtime/static/realtime/board", "realtime/static/realtime/vendor")
"""The demonstration, and what others wrote."""

_STRING = r"u?(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
_CALL = re.compile(rf"(?<!\w)(n?p?gettext|_)\(({_STRING})(?:, ?({_STRING}))?")
_PYTHON = {"gettext", "gettext_lazy", "gettext_noop", "ngettext"}


class Text(NamedTuple):
    """What is translated: the English text, its plural, and what tells it from another one of the same words."""

    text: str
    plural: str = ""
    context: str = ""


class Catalogue(NamedTuple):
    """A file of texts, and the forms that each has in a language."""

    path: Path
    texts: dict[Text, list[str]]


def catalogues() -> Iterator[Catalogue]:
    """Those of both apps, in all languages."""
    for app in APPS:
        for path in sorted((ROOT / app / "locale").glob("*/LC_MESSAGES/*.po")):
            yield Catalogue(path, read(path))


def read(path: Path) -> dict[Text, list[str]]:
    """What stands in a .po file."""
    found: dict[Text, list[str]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        entry: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            assert "fuzzy" not in line, f"{path}: {block}"
            if line and not line.startswith("#"):
                word, _, text = line.partition(" ")
                key, text = (key, line) if line.startswith('"') else (word, text)
                entry[key] = entry.get(key, "") + ast.literal_eval(text)
        if entry.get("msgid"):
            text = Text(entry["msgid"], entry.get("msgid_plural", ""), entry.get("msgctxt", ""))
            found[text] = [form for key, form in entry.items() if key.startswith("msgstr")]
    return found


def asked_for(app: str, domain: str) -> set[Text]:
    """What the sources of an app ask for: its scripts (``djangojs``), or its templates and modules (``django``)."""
    found: set[Text] = set()
    for path in sorted((ROOT / app).rglob("*.*")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NOT_TRANSLATED):
            continue
        if domain == "djangojs" and path.suffix == ".js":
            found |= set(_called(path.read_text(encoding="utf-8")))
        elif domain == "django" and path.suffix == ".html":
            found |= set(_called(templatize(path.read_text(encoding="utf-8"), origin=name)))
        elif domain == "django" and path.suffix == ".py":
            found |= set(_called_in_python(path))
    return found


def _called(source: str) -> Iterator[Text]:
    for name, first, second in _CALL.findall(source):
        one, other = ast.literal_eval(first), ast.literal_eval(second) if second else ""
        if name == "pgettext":
            yield Text(other, context=one)
        else:
            yield Text(one, other if name == "ngettext" else "")


def _called_in_python(path: Path) -> Iterator[Text]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PYTHON:
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            # What is no literal was marked where it stands.
            if texts and isinstance(texts[0], str):
                yield Text(texts[0], str(texts[1]) if node.func.id == "ngettext" else "")


class _Reader(HTMLParser):
    """Collects what a reader sees or hears of a page: texts, and the attributes that are read out."""

    SILENT = frozenset({"script", "style", "code", "pre", "textarea", "svg"})

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in self.SILENT
        given = dict(attrs)
        names = ["aria-label", "placeholder", "title"] + ["value"] * (given.get("type") in ("submit", "button"))
        for name in names:
            self._take(given.get(name) or "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in self.SILENT

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._take(data)

    def _take(self, text: str) -> None:
        if re.search(r"[A-Za-z]{2}", text):
            self.seen.add(" ".join(text.split()))


def seen(page: str) -> set[str]:
    """The texts with words of a page of HTML."""
    reader = _Reader()
    reader.feed(page)
    return reader.seen
