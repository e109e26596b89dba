"""Django's hook, as a process asks it: the way there, the workers that answer, and publishers that wait for it."""
