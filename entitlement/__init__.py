"""Who may read and publish what: rules in Django, compiled for the sidecar.

Laws:

* Deny by default: only a rule allows, the most specific one decides, and between equals deny wins.
* The database has the rights; a sidecar follows it, and answers "not ready" before it has them.
* Where tokens are signed with keys, the sidecar has the public ones alone.
"""
