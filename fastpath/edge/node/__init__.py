"""What the workers of a node tell each other: the messages, and how any part of a worker sends and hears them.

Laws:

* Messages on one link arrive in the order in which they were sent.
* The fields of a message are sent in the order of its class, without names: sender and receiver change together.
"""
