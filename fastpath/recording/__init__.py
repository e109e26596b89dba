"""Records what subjects say, with the times, to files, and plays it back to any server (docs/develop/recording.md).

Laws:

* When a message is due is worked out without I/O or clock.
* A file that was cut in the middle is read up to there, and what was recorded outlives a crash but for its last moment.
* What is replayed is numbered: what is sent again after a lost connection is stored once.
"""
