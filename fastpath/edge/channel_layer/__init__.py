"""The channel layer of Django Channels on its way between Django's processes, over the control socket and the nodes.

Laws:

* Whatever one process sends in order another one receives in order.
* A receiver is answered with one message, or told that it waits no more: never both, and never neither.
* A channel is kept by one node; what waits elsewhere, as that is not known, is moved there in its order.
* Between nodes nothing of it is kept, and nobody waits for more than one of them.
"""
