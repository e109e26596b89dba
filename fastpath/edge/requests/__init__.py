"""Requests and their replies on the way between clients, callers of HTTP, Django and the workers (protocol.md 3.11).

Laws:

* The first worker alone chooses who is asked (``router.py``), at first of its node's responders; right, room and time
  are the responder's process' to say.
* A reply goes back the way that its request names; whoever hands it on keeps nothing of it.
* The responder's process tells that the time is over. The requester's own clock only ends what was lost on the way.
* What was under way between two nodes ends when the way between them is interrupted (``nodes.py``).
"""
