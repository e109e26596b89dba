"""The source: what a sidecar has cached and what comes, by positions, as columns.

Laws:

* A batch that is run again reads the same messages, or fails because they are not there any more.
* What tasks read of a subject is in its order, and no message is read by two.
* Offsets are worked out without I/O.
"""
