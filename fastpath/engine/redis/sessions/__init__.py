"""The sessions of MQTT clients in Redis, where every node finds them: who has which, and what it has said of it.

Laws:

* One claim at a time has a session: what another one writes is not taken, and it is told so.
* What is written may be late or lost without harm to a message: it is where its reader begins again.
"""
