"""The names of modules are made of words that the glossary explains, or that need no explanation."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
PACKAGES = ("fastpath", "realtime", "entitlement", "spark", "pyspark_fastpath")

PLAIN = {
    "where Django and Python look for them, and their short forms": """
        admin api app application apps asgi auth conf demo main management models runrealtime runserver settings stats
        templatetags urls views
    """,
    "programs, protocols, formats and the project's own names": """
        datasource epoll fastpath http java jmx jwt kafka mariadb mqtt openapi postgresql procfs prometheus pyspark
        realtime redis spark systemd tls websocket
    """,
    "words of all programs": """
        address argument asynchronous base blocking caller cases casts checks classes clock database close compression
        connection context decoding disk empty encoding endpoint error file format head installation interpreter kernel
        kit line listen log login loop machine memory name operating option page plugin process program project query
        request result script server service setting signal statement table thread value web acknowledged
    """,
    "commands, and what a program does or is": """
        collect compare discard explain export fetch find listening migrating publish publishing read reading receiving
        numbering record refresh reload reporting requesting respond responding running saving search seed sending
        serving set shipping show start stop store subscribe support test tracing write writer writing
    """,
    "what is measured or shown": """
        bench chart compiling committing conflating connecting cost description document load measure micro monitoring
        demonstration overview preview simulation size statistics summary
    """,
    "English, in its own sense": """
        accept access acks action allowed answers arrival aside asking attention awake basic bridge by contents
        current described desk detail direct drive ends failures following hand hints live local open order
        outside past plain price privileges promise reasons recent remembered senders staged state
        subscribed talk
    """,
}
"""Words that mean in a module's name what they mean anywhere."""


def forms(word: str) -> set[str]:
    """The word, and what it may be the plural of."""
    return {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}


@cache
def terms() -> frozenset[str]:
    """The words of the glossary's terms."""
    bold = " ".join(re.findall(r"\*\*(.+?)\*\*", GLOSSARY.read_text(encoding="utf-8"), re.DOTALL))
    return frozenset(form for word in re.findall("[a-z]+", bold.lower()) for form in forms(word))


@cache
def words() -> frozenset[str]:
    """Those of all names of packages and modules of the product."""
    paths = [
        path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.parent.name != "migrations"
    ]
    names = " ".join(path.parent.name if path.name == "__init__.py" else path.stem for path in paths)
    return frozenset(re.findall("[a-z]+", names))


def test_each_word_of_a_name_is_explained_or_plain() -> None:
    plain = {form for group in PLAIN.values() for word in group.split() for form in forms(word)}
    assert sorted(word for word in words() if not forms(word) & (terms() | plain)) == []


def test_no_plain_word_is_without_use_or_explained_besides() -> None:
    used = {form for word in words() for form in forms(word)}
    plain = [word for group in PLAIN.values() for word in group.split()]
    assert sorted(word for word in plain if word not in used) == []
    assert sorted(word for word in plain if forms(word) & terms()) == []


def test_the_glossary_is_in_order() -> None:
    found = re.findall(r"^\* \*\*(.+?)\*\*", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    keys = [re.sub("[^a-z ]", "", term.lower()) for term in found]
    assert keys == sorted(set(keys))
