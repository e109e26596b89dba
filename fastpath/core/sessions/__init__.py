"""What clients ask for: sessions, subscriptions to subjects and patterns, publications, and the rights behind them.

Laws:

* A fault in a command is its client's alone: it is answered with an error, and nobody else notices.
* Rights are asked when a subscription begins, and again for every change of them: a revoked right stops data at once,
  also in the client's queue.
* Commands of a client are done in order: one that waits for an answer holds all that come behind it.
* Searches and rechecks run in slices: ``busy`` says that there is more, ``step`` does a part of it.
"""
