"""Ports: their addresses, TLS, keys, accepted sockets on the way to their protocol, and a reload of all that."""
