"""The log of every process of the sidecar: its forms, levels and bounds, and the thread that writes it.

Laws:

* Who has something to say waits for no disk and no pipe: a thread writes.
* What waits to be written is bounded; what finds no room is counted.
"""

from __future__ import annotations

from .formats import Json, Text

__all__ = ["Json", "Text"]
