"""Ports: their addresses, TLS, keys, accepted sockets on the way to their protocol, and a reload of all that.

Laws:

* No port for clients or publishers opens before the process can serve it: the engine, or the copy of another worker,
  comes first.
* An accepted socket has a bounded time and a bounded head until its protocol is known.
* A reload that fails leaves what was in force.
"""
