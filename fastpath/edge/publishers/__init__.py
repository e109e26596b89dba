"""The connections of the publisher port: batches, positions and ranges for readers, reports of jobs.

Laws:

* A row that is wrong gets its own result; a frame that is wrong ends the connection.
* A batch is acknowledged once, with one result a message, when the broker is done with all of it.
* A publisher that does not read its acknowledgements, or that is faster than the writing, is held, not dropped.
* Answers to readers are sent in slices of a millisecond, no faster than they are read.
"""
