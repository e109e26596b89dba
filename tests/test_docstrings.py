"""How docstrings begin, as `make check` holds them: a function's with a verb, all others' with a noun."""

from __future__ import annotations

import pytest

from tools import check_docstrings


def of_function(docstring: str) -> str:
    return f'def f():\n    """{docstring}"""\n'


def of_property(docstring: str) -> str:
    return f'class C:\n    @property\n    def p(self):\n        """{docstring}"""\n'


def of_class(docstring: str) -> str:
    return f'class C:\n    """{docstring}"""\n'


def of_attribute(docstring: str) -> str:
    return f'class C:\n    if True:\n        x: int = 1\n        """{docstring}"""\n'


@pytest.mark.parametrize(
    "source",
    [
        *map(
            of_function,
            [
                "What it is.",
                "Whether it is open.",
                "Who waits.",
                "Whom to tell.",
                "Of the newest message.",
                "For who waits.",
                "How long it takes.",
                "Where it stands.",
                "The number of clients.",
                "A number, or None.",
                "All of them.",
                "Nothing is sent any more.",
                "It is sent.",
                "Returns the number.",
                "Raises OSError.",
                "Connected.",
                "Prices of the day.",
                "JSON of it.",
                "``version`` and ``server``.",
                "(name, value) of each.",
                "what it is, in lower case.",
            ],
        ),
        *map(of_property, ["Whether it is open.", "Return the number.", "What carries it.", "It is open."]),
        *map(of_class, ["What waits.", "Without a lock.", "Return it.", "It waits."]),
        *map(of_attribute, ["How long it waits.", "So many at most.", "Of a name.", "It is sent.", "Whether it is."]),
        "async " + of_function("What it is."),
        'def outer():\n    try:\n        def f():\n            """What it is."""\n    finally:\n        pass\n',
    ],
)
def test_the_check_of_docstrings_finds(source: str) -> None:
    """`make check` is only worth what it catches."""
    assert len(list(check_docstrings.faults("module.py", source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        *map(
            of_function,
            [
                "Return what waits.",
                "Return True if it waits.",
                "Begin, and return the first.",
                "Seed the generator.",
                "Pass it on.",
                "Process a frame.",
                "Focus the field.",
                "Feed it.",
                "Number the rows.",
                "End.",
                "End; nothing comes after it.",
                "Answer.\n\n    What comes later is lost.\n    ",
            ],
        ),
        *map(of_property, ["The number of clients.", "Number of clients.", "True while it is open."]),
        *map(of_class, ["A client.", "Returned rows, in order.", "JSON lines.", "The rows that wait."]),
        *map(of_attribute, ["Seconds to wait for an answer.", "``name`` of each.", "The most that are kept."]),
        "def f():\n    return 1\n",
        'x = 1\n\ny = "What it is"\n',
    ],
)
def test_the_check_of_docstrings_passes_what_is_right(source: str) -> None:
    assert not list(check_docstrings.faults("module.py", source))


def test_every_module_of_the_product_and_of_the_tools_is_checked() -> None:
    """No folder is excused, and tests are none of the product's."""
    names = ["fastpath/client/errors.py", "fastpath/awake.py", "realtime/apps.py", "tools/matrix.py", "tests/any.py"]
    assert list(check_docstrings.checked(names)) == names[:-1]
