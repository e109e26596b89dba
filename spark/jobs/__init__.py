"""Spark jobs that run as processes of their own.

Laws:

* A job is a process: one command line, queries until a signal, and one line that says why it failed.
* Each query keeps its position in a folder of its own, and goes on from there.
* Each says how far it is, and goes on where it may not say so.
"""
