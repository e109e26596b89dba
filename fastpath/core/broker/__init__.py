"""The broker: admits, numbers by its engine, keeps and delivers what is published, and hands on all that it holds.

Laws:

* What is refused has no effect: rights, size and version are looked at before a message goes to the engine.
* A message is cached and offered only after the engine has numbered it, and in that order.
* A subscription begins in one tick: what is stored leaves first, then the client joins its group, so nothing is missed
  or doubled at the seam.
* Done is told only when the engine says that what was published is safe.
"""
