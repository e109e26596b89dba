"""Rules as people write them: patterns, forms, hints, previews, explanations, import and export, history.

Laws:

* A file of rules is taken whole or not at all, and taken twice it changes nothing.
* What is explained is decided by the same code as in the sidecar, beside what the running one answers.
* A pattern that is wrong is refused with the place, the reason, and what to write instead.
"""
