"""The protocol as values: subjects, messages, commands, their bytes, and every bound and error that they have.

Laws:

* Nothing here knows a client, a socket or another wing of the core: the Python clients, Django and Spark share it with
  the sidecar.
* The bytes are those of docs/reference/protocol.md: a change here is a change of the protocol.
* What a peer sends is checked against its bound when it is decoded; what is wrong raises an error and has no effect.
"""
