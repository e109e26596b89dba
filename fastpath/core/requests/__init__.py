"""Requests and their replies without I/O: who answers which, and what waits for an answer (protocol.md 3.11 to 3.13).

Laws:

* A request is asked of one responder at a time, and of another only while none has seen it.
* A reply counts only from the responder that was asked; the name that it goes to is no right of anybody else's.
* What waits has a time, after which it is over on both sides; nothing of a request is kept after that.
* Requests and replies are no messages of a subject: no topic, number, cache, snapshot, history or presence has them.
"""
