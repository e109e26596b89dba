"""The embedded engine with a journal: what is numbered is in a file before anybody sees it, and on the disk in time.

Laws:

* A batch is one record and one write; what cannot be written is taken back and refused.
* A file ends in what the power left: only there may a record be incomplete, and damage anywhere else is told.
* The log is removed only when a finished base stands for it.
* One process at a time has the folder, by its lock.
"""
