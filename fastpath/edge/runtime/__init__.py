"""What every component of one process uses: the runtime, what components offer, fair turns, the poller, the clock.

Laws:

* Everything here runs on the loop of one process, and nothing in it may block.
* What a tick has pending is flushed once at its end, and an answer leaves behind the log that holds its message.
* What comes in faster than it can be written is held where it is (``Runtime.congest``).
"""
