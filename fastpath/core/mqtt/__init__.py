"""MQTT 3.1.1 and 5 without I/O: packets and their bytes, topics as subjects, what a session remembers, and the talk.

Laws:

* What the standard calls malformed or a protocol error ends the connection with its reason code; nothing is guessed.
* A topic has exactly one subject, and the way back gives that topic.
* A message is one record, its packet made once for all subscribers of a version; what is one client's own is added as
  the record leaves.
* An acknowledgement says what became of the publication, and is not sent before that is known.
"""
