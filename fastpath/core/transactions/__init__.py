"""A publisher's transaction: rows are staged, and a batch of them is committed exactly once (protocol.md 6.5 to 6.8).

Laws:

* A batch is begun once: the record that was stored first counts, whoever asks and however often.
* An earlier batch that was begun is released to its end before a later one begins; after a later one none begins.
* Row n of a transaction has publication number n, however often its release begins: what is stored is not stored again.
* What was refused is told, also where the release went on after a pause, or when the answer was lost.
"""
