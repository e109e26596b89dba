"""The sidecar as processes: what one is made of, the workers beside each other, and who watches them.

Laws:

* With several workers the parent holds the ports, forks the workers and restarts them; it has no client and no message.
* Where `FASTPATH_USER` names a user, root is given up for good before anything of a peer is read.
* ``components.py`` alone lists what a process consists of, and passes collaborators to constructors.
* A worker is killed only when it hangs; time in which the machine stood still does not count against it.
"""
