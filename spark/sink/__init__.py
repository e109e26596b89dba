"""The sink: rows of a batch become frames, are staged by tasks, and committed once.

Laws:

* A batch is published once or not at all: tasks stage rows, and the driver commits those of the attempts that count.
* A row that is refused fails the write, or goes to the dead letters and keeps no other from being published.
* Executors need PySpark, PyArrow, msgspec and `fastpath.client`, and no more.
"""
