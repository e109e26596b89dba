"""The protocol as values: subjects, messages, commands, their bytes, and every bound and error that they have.

Nothing here knows a client, a socket or another wing of the core: it is what the Python clients, Django and Spark share
with the sidecar.
"""
