"""The monitoring pages: what an operator sees and does.

Laws:

* All nodes are asked beside each other; one that is away is named, and holds up no page.
* What changes something comes by POST, needs a right of its own, and stands in the admin's log.
* A page shows what the sidecar says; nothing is decided here.
"""
