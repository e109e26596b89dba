"""The asynchronous client: a state machine without I/O, and the driver that gives it sockets and time."""
