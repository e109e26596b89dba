"""Groups of MQTT clients that share subscriptions: who takes which message, also where members are on several workers
or nodes.

``shares`` is a group in one process, ``nodes`` one of several nodes, ``guests`` what the first worker knows of other
workers' members, ``asking`` a group on one of these.

Laws:

* Each message has one taker over all workers: elsewhere than on the first one nothing is taken that was not granted.
* Of several nodes each message is one's, by a choice that all make alike; what that one does not take another one does.
* A message that its taker has not for good when its session ends is offered to the others.
* A member that cannot take anything, or a worker that does not ask, is not waited for.
"""
