"""Processes that ``runrealtime`` starts and ends: the supervisor, what may be left behind, the hooks' own one.

Laws:

* A child that ends is started again, after a pause that grows with failures in a row.
* Every child ends with the process that started it, on Linux also when that one is killed.
* No answer of a hook keeps another one waiting.
"""
