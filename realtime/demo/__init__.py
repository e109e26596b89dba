"""The demonstration: instruments, users and their rules, the board; nothing that a project uses imports it.

Laws:

* Only its command, ``runrealtime --demo`` and this project's own list of pages import it.
* Seeding adds what is missing; what somebody has changed stays as it is.
* One rule is about all that is published of an instrument, and no message is about two.
"""
