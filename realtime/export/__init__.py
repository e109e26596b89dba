"""What leaves for other tools: figures in Prometheus' form, and the files of the audit.

Laws:

* A node that does not answer is named, and keeps no other from being told.
* What is missing is said: events that were dropped, lines that were no events.
* Reading changes nothing, neither a file nor a node.
"""
