"""The sidecar's core in this process, for tests: numbers, rights, snapshots, conflation, recovery; no socket, no sleep.

Laws:

* What decides and delivers is the core itself and the Python client's own state; here are only what joins them, and the
  rights, which come from the project's database as they would go to a sidecar.
* Time passes when a test lets it, and the same test gives the same messages.
* A call returns when everything that it caused has arrived.
"""
