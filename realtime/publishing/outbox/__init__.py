"""The outbox: publish() writes a row in the caller's transaction, and a process sends it after the commit, once.

Laws:

* What is committed is stored once, what is rolled back never; a row is deleted when it is known to be stored.
* The messages of a subject are sent in the order of their commits.
* Which row has which number is in the database before it is sent, so that whoever goes on sends it under the same.
* Who leads is a matter of speed alone: two at a time store nothing twice.
* What the sidecar refuses is set aside with its reason, and holds up nothing.
"""
