"""The edge: the only files that know sockets.

Laws:

* The core decides, the edge moves bytes: no right, number or order is decided here.
* A component says in its ``offers`` what it serves, and the runtime takes it from there.
* Work that grows is done in fair turns of some milliseconds, so that no connection waits for another one's.
"""
