"""What the core counts: counters, durations, the busiest subjects, and what is sampled of them.

Laws:

* Totals are raised on the data path by integer additions only; a rate is the difference of two readings.
* Memory is bounded: busy subjects are found by a few thousand samples, not by a count for each subject.
"""
