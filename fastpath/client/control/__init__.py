"""Blocking clients of the control socket, for Django and its agent (protocol.md 8).

Laws:

* Every question has a deadline. A node that hangs is left alone for a pause, which grows.
* Another node is asked where one is away or cannot do it now, never because one says no.
* Calls that wait at the same moment are sent in one frame; each is told its own end, and no other.
* Rows that are published keep their number at whichever node: what is sent again is stored once.
"""

from __future__ import annotations

from .client import FRAME_BYTES_MAX, Control

__all__ = ["FRAME_BYTES_MAX", "Control"]
