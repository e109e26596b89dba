"""``publish()``: rows checked at the call, collected in transactions, sent once; and what failed of it.

Laws:

* What can be known without the sidecar is checked at the call, and a later change of an object does not reach the
  message.
* What is published in a transaction is sent after its commit, in the order of the calls; what is rolled back is never
  sent.
* What failed and nobody is told of is logged and counted.
* A call ends within its deadline, and may be made in any thread, loop or forked process.
"""
