"""What the workers of a node, and nodes, tell each other: the messages, and how any part sends and hears them.

Laws:

* Messages on one link arrive in the order in which they were sent.
* The fields of a message are sent in the order of its class, without names: sender and receiver change together.
"""
