"""The channel layer of Django Channels, as a process of Django has it: connections of its loops, receivers, groups.

Laws:

* Each loop has a connection of its own; nothing of a loop is touched from another one, nor from a child after a fork.
* A receiver goes on waiting while the sidecar is away; whatever sends is told at once that it is.
* A message that reached this process and found its receiver gone goes back to where it came from.
"""
