"""How readers and writers reach Spark's Python workers: one that lacks the packages says so in a sentence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, SupportsIndex


class Travels:
    """The base of what is pickled for workers; where they cannot import its class the task fails with what to install
    there."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        kind = type(self)
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            return super().__reduce_ex__(protocol)  # of a program or notebook: its code travels, too
        # The state comes after the call: whatever is in it is not looked for before the class was found.
        return _arrival(), (kind.__module__, kind.__qualname__), self.__dict__


def _arrival() -> Callable[..., Any]:
    # A function within another has no name that could be imported: cloudpickle sends its code.
    def arrive(module: str, name: str) -> Any:
        try:
            found = getattr(importlib.import_module(module), name)
        except ImportError as error:
            raise RuntimeError(
                f"Spark's Python worker here runs {sys.executable}, which cannot load Fastpath ({error}): "
                'pip install "django-fastpath[spark]" there, on every machine of the cluster, or name a Python that '
                "has it in PYSPARK_PYTHON before the session is built"
            ) from None
        return object.__new__(found)

    return arrive
