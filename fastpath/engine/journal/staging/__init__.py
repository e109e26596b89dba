"""Rows of transactions in files beside the journal: they wait there for their commit.

Laws:

* Rows are on the disk before the record of their commit is.
* Rows go only when nobody can ask for them any more.
* Chunks are read in a thread: the loop never waits for the disk to bring them.
"""
