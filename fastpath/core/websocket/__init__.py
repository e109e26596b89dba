"""WebSocket without I/O: the HTTP handshake, frames, closing, masking, compression (RFC 6455, RFC 7692).

Laws:

* Bytes that break the RFC raise an error with the close code that it names.
* No length that a peer sends is trusted before it is compared with its bound, also after decompression.
"""
