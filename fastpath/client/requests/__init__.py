"""Requests as the Python client sees them: what came of one, and the handlers that answer others' (protocol.md 3.11).

Laws:

* A request is sent once: when its connection is lost its outcome is not known, and the program is told that.
* A handler's fault is its request's alone, and whoever asked is told no more of it than that there was one.
"""
