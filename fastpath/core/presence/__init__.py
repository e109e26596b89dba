"""Who is online, who is on a subject, and what is wanted of what is advertised, over all processes and nodes.

Laws:

* Presence is observed only while it is kept or somebody advertises.
* What is lost between processes is noticed by its number and asked for again in full, never guessed.
* Joins and leaves are in no log and no cache.
"""
