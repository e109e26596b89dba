"""Django Channels' channels and groups without I/O: what waits in each, who receives, and who is in which group.

Laws:

* A message goes to one receiver, in the order in which it was sent; a group's message once to each of its channels.
* What is not delivered is counted: a full channel and a message that nobody took in time.
* Every channel, every message that waits and every membership is bounded, and has a time after which it is over.
* Channels and groups are no subjects: no client, rule, cache or history reaches them.
"""
