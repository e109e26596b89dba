"""The asynchronous client: a state machine without I/O, and the driver that gives it sockets and time.

Laws:

* The machine, the protocol's state and the subscriptions do no I/O and read no clock: the driver alone has sockets,
  time and tokens.
* A name has one owner. What was missed while a connection was lost is asked for by position, and what was read is not
  told again.
* A publication of guaranteed quality keeps its number until it is known not to be stored.
"""
