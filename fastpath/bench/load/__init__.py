"""The load generator: swarms of clients on raw sockets, publishers, their dialects, and what arrives when."""
