"""Figures of a process and its node: samples, health, and their HTTP and Prometheus forms.

Laws:

* Every figure is in core/telemetry/figures.py, which says what it is and how those of several workers make one.
* Counters are read at each whole second of the clock that is never set, and a sample tells every increment once.
* Names of figures and metrics are read by operators' tools and do not change.
"""
