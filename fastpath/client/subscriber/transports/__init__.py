"""What carries the frames of the asynchronous client: WebSocket, stream, poll, and the ladder that chooses among them.

Laws:

* The ladder does no I/O and reads no clock.
* Above a link nobody can tell by which transport frames come: the order, the form JSON or MessagePack, and the end with
  a close code are the same.
* A link sends in order, one request at a time, and the same numbers again where an answer was lost.
"""
