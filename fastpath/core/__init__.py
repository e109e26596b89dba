"""The pure core: no socket, loop, clock, thread, file or log; time is an argument.

Laws:

* The core does no I/O: no randomness and no environment either; times are arguments, in ms unless a name says
  otherwise.
* The data path has no ``await``, task or lock: a publication is handled in one place, in one tick.
* The core calls the edge through the protocols that it declares, such as ``Link``, and imports neither edge nor engine.
* A call to a ``Link`` does not come back into the core before it returns.
"""
