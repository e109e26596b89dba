"""Plain HTTP on client ports: requests in order on a connection, their endpoints, and answers (docs/reference/rest.md).

Laws:

* What a request may and what it costs is decided as for a client: by the same rights, rates, addresses and limits.
* A publication is answered when it is safe, and never before the log of this process has it.
* One request of a connection at a time: while it is answered hardly anything is read from there, and
  nothing grows.
* Bytes that two readers could understand differently are refused, and the connection with them.
"""
