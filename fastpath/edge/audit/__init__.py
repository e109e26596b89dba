"""The audit: events on the data path, a bounded queue, files and listeners (docs/operate/audit.md).

Laws:

* The data path only makes an event and puts it into the queue: encoding runs in slices, files are written in a thread.
* The queue is bounded: an event without room is counted as lost, and nothing waits for it.
* Nothing is attached to the core while nobody asks for events.
"""
