"""What clients of MQTT have beside others: packets in and out on their connections, and sessions that outlast these.

Laws:

* What a client says becomes commands of the protocol, under the same rights and bounds; nothing here publishes or
  subscribes past them.
* Nobody takes another user's session, and a session has one connection, over all workers.
* What a session keeps while its client is away has a bound, over all sessions, and a time.
"""
