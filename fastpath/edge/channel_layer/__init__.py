"""The channel layer of Django Channels on its way between the processes of Django, over the control socket.

Laws:

* Whatever one process sends in order another one receives in order.
* A receiver is answered with one message, or told that it waits no more: never both, and never neither.
"""
