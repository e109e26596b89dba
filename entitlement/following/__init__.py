"""How a change of rights reaches the sidecars: triggers note it, the agent reads, compiles and pushes it.

Laws:

* A trigger notes each change in the transaction that makes it, whichever code made it.
* A sidecar gets the whole set once, then every difference, by generation.
* While a trigger is missing, the tables are compared instead: no change stays unseen.
"""
