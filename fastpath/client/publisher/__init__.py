"""Blocking clients of the publisher port, for Spark executors, feeds and scripts (protocol.md 6).

Laws:

* What is not acknowledged is kept: of a lost connection it goes back to the queue, in its order.
* A row that may be stored keeps the number that it was first sent with: a server stores a number once.
* Staged rows are published by the commit of their batch alone.
"""

from __future__ import annotations

from .publisher import Publisher, Row
from .transactions import Attempt, Committer, Stager

__all__ = ["Attempt", "Committer", "Publisher", "Row", "Stager"]
