"""The empty dict that all share who keep nothing: of the tables of a client most are empty for as long as it is there.

An empty dict of one's own takes 64 bytes, and a client has a dozen of them.
"""

from __future__ import annotations

from typing import Any, NoReturn


class _Empty(dict[Any, Any]):
    """A dict to which nothing can be added; what is deleted from it is not there, as in any other."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict is everybody's: put a new one in its place first")

    __setitem__ = setdefault = update = __ior__ = _refuse


NO_ENTRIES: dict[Any, Any] = _Empty()
"""Dict that stands for one's own until the first entry, when one's own takes its place."""
