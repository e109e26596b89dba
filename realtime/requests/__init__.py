"""Requests from Django, and functions of the project that answer those of others (docs/develop/request-reply.md).

Laws:

* A request is sent once, to the first node that takes it: when no answer comes its outcome is not known.
* Responders are found by their modules, and each runs with database connections as a request of the web has.
"""
