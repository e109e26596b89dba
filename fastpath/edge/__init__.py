"""The edge: the only files that know sockets."""
