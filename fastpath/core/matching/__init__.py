"""Subjects and patterns matched against each other: all subjects by segment, sets of patterns, patterns in use.

Laws:

* A subject is matched segment by segment, never as text.
* A wildcard in the first place of a subscription does not stand for the server's own subjects; in a right it does
  (protocol.md 2.3, `core/auth/rules.py`).
"""
