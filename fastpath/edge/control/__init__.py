"""The control socket, and the verbs of operators: clients, subjects, rankings, traces (protocol.md 8).

Laws:

* A connection holds no verb: each is a component's, in the wing that it belongs to (``Offers.verbs``).
* Verbs and their answers are part of the protocol (protocol.md 8): tools outside this repository may rely on them.
* What takes long is worked out in slices, and a worker that gave no answer in time is named.
* A client keeps nothing for being looked at: what an operator asks is worked out when it is asked.
* When a trace ends nothing is attached to the core any more.
"""
