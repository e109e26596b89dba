"""The engines: who numbers messages and keeps them.

Laws:

* Numbers of a subject rise by one, and an epoch is never lower than one that was given before.
* Nothing is acknowledged before it is as safe as the engine promises; a retry is stored once.
* What fails is taken back whole: no number is left given for a message that is not kept.
* Only ``registry.py`` names the engines; all else knows what ``base.py`` says of them.
"""
