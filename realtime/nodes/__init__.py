"""The sidecars of a site, as Django asks them: their control sockets, one or all of them, drain.

Laws:

* All nodes are asked beside each other, each with its own time; what one node can answer is asked of the first that
  does.
* A page waits for no node that is known to be away.
* Clients are sent to no node that is draining or away, unless none would be left.
"""
