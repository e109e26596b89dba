"""Plain HTTP on client ports: requests in order, their endpoints, answers, and what Django asks alike by verbs.

docs/reference/rest.md, docs/reference/protocol.md 8.

Laws:

* What a request may and what it costs is decided as for a client: by the same rights, rates, addresses and limits.
* A publication is answered when it is safe, and never before the log of this process has it.
* One request of a connection at a time: while it is answered hardly anything is read from there, and
  nothing grows.
* Bytes that two readers could understand differently are refused, and the connection with them.
"""
