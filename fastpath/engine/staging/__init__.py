"""Where rows of transactions wait for their commit: in memory, in files beside the journal, or in Redis.

Laws:

* Chunks of an attempt come without a gap; one that is there already is left as it is.
* Every store has a bound, and refuses what goes over it with ``staging_full``.
* The record of a commit outlives its rows, so that a commit that comes again is answered and not done again.
"""
