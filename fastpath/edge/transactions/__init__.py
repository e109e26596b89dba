"""Rows that are staged and committed once: the frames ``stage`` and ``commit``, and what operators may ask of them.

Laws:

* A batch is published once or not at all: its record is on the disk, or on every Redis server, before its first row.
* A batch that was committed is answered from its record, whatever attempts are named.
* Row n of a transaction is publication n of a publisher of its own, so a release that begins again stores nothing
  twice.
* Nobody sees a staged row before its commit.
"""
