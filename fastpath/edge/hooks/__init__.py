"""Django's hook, as a process asks it: the way there, the workers that answer, and publishers that wait for it.

Laws:

* The data path never waits for the hook: a right that is asked for is "not ready" until the answer is there.
* A question that nobody answers in time is answered here, as late.
* What a connection sends behind a command or batch that waits stays behind it.
"""
