"""What is kept of each subject: its newest messages, its snapshot, and which publications were stored already.

Laws:

* The messages of a subject are a chain: their numbers rise by one, also over epochs.
* A gap is never hidden: a position that the cache does not reach back to is answered as a gap.
* A retry is stored once: a publication that was stored is found by its publisher's number, and one that can no longer
  be told is refused, not stored again.
"""
