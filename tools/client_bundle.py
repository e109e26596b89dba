"""Writes the JavaScript client as one file, `client.js` with its map, out of the modules in `client/`.

`python -m tools.client_bundle` (`make client`). A page then loads one file, whose name may say its content: there is no
import in it that would have to follow. Each module stays as it is written, comments and lines, in a function of its
own; so names in errors are those of the sources, and by the map browsers show their lines. It needs no Node, and the
result is in the repository, so that a checkout and a wheel of it are whole; a test says when it is not what its modules
give.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "realtime/static/realtime"
MAIN = "client/client.js"
"""Module whose exports are those of the file."""
TARGET = "client.js"
MAP = f"{TARGET}.map"

_IMPORT = re.compile(r'^import \{(\s*\w+(?:,\s*\w+)*,?\s*)\} from "(\.{1,2}/[\w./-]+)";', re.MULTILINE)
_DECLARED = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LISTED = re.compile(r"^export \{(\s*\w+(?:,\s*\w+)*,?\s*)\};", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*|\bimport\.meta\b.*", re.MULTILINE)
_TYPE = re.compile(r'\bimport\("[\w./-]+"\)\.(?=\w)')
"""A type of another module in a comment; Django's storage would take it for an import where that is switched on."""
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class UnknownForm(Exception):
    """A module imports or exports in a way that is not known here, or modules import each other in a ring."""


class Bundle(NamedTuple):
    """The text of the file and of its map."""

    script: str
    map: str


class _Module(NamedTuple):
    name: str
    body: str
    imports: list[str]
    exports: list[str]


def bundle(folder: Path = FOLDER) -> Bundle:
    """Make the file and its map, out of the modules of a folder; raise UnknownForm."""
    modules = list(_in_order(folder, MAIN, ()))
    lines = [
        "/**",
        " * The JavaScript client, one file made of the modules in client/: `make client` writes it, edit them.",
        " * docs/develop/javascript.md is its guide.",
        " */",
    ]
    places: list[tuple[int, int] | None] = [None] * len(lines)
    for number, module in enumerate(modules):
        last = module.name == MAIN
        given = f"const {{ {', '.join(module.exports)} }}" if last else f"const {_variable(module.name)}"
        body = module.body.rstrip("\n").split("\n")
        lines += ["", f"{given} = (() => {{ // {module.name}", *body]
        places += [None, None, *((number, line) for line in range(len(body)))]
        lines += [f"return {{ {', '.join(module.exports)} }};", "})();"]
        places += [None, None]
    lines += ["", f"export {{ {', '.join(modules[-1].exports)} }};", f"//# sourceMappingURL={MAP}", ""]
    return Bundle("\n".join(lines), _map([module.name for module in modules], places))


def write(made: Bundle, folder: Path = FOLDER) -> None:
    """Put both where they are served from."""
    (folder / TARGET).write_text(made.script, encoding="utf-8")
    (folder / MAP).write_text(made.map, encoding="utf-8")


def _in_order(folder: Path, name: str, above: tuple[str, ...], seen: dict[str, None] | None = None) -> list[_Module]:
    """Return a module after those that it imports, each once."""
    seen = {} if seen is None else seen
    if name in above:
        raise UnknownForm(f"{' imports '.join((*above, name))}: a ring")
    if name in seen:
        return []
    module = _read(folder, name)
    found = []
    for other in module.imports:
        found += _in_order(folder, other, (*above, name), seen)
    seen[name] = None
    return [*found, module]


def _read(folder: Path, name: str) -> _Module:
    text = (folder / name).read_text(encoding="utf-8")
    imports: list[str] = []

    def taken(match: re.Match[str]) -> str:
        imports.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2])))
        return f"const {{{match[1]}}} = {_variable(imports[-1])};"

    text = _TYPE.sub("", _IMPORT.sub(taken, text))
    exports = [match[1] for match in _DECLARED.finditer(text)]
    exports += [one.strip() for match in _LISTED.finditer(text) for one in match[1].split(",") if one.strip()]
    text = _LISTED.sub(lambda match: "\n" * match[0].count("\n"), _DECLARED.sub("", text))
    if other := _OTHER.search(text):
        raise UnknownForm(f"{name}: {other[0]}")
    return _Module(name, text, imports, exports)


def _variable(name: str) -> str:
    """Return the name of a module's exports in the file: that no module has a name with a dollar keeps it apart."""
    return f"${name.removeprefix('client/').removesuffix('.js').replace('/', '_')}"


def _map(sources: list[str], places: list[tuple[int, int] | None]) -> str:
    """Return a source map of version 3, a segment for each line: its source and its line there, as differences."""
    source = line = 0
    rows = []
    for place in places:
        if place is None:
            rows.append("")
            continue
        rows.append("A" + _quantity(place[0] - source) + _quantity(place[1] - line) + "A")
        source, line = place
    said = {"version": 3, "file": TARGET, "sources": sources, "names": [], "mappings": ";".join(rows)}
    return f"{json.dumps(said)}\n"


def _quantity(number: int) -> str:
    """Return a number in base 64 of variable length, its sign in the lowest bit."""
    rest = (abs(number) << 1) | (number < 0)
    digits = ""
    while True:
        rest, low = rest >> 5, rest & 31
        digits += _DIGITS[low | (32 if rest else 0)]
        if not rest:
            return digits


if __name__ == "__main__":
    try:
        write(bundle())
    except UnknownForm as error:
        sys.exit(f"client_bundle: {error}")
