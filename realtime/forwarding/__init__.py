"""The web port's own /events, /snapshot, /api/… and /session/…: carried to the sidecar's client port and back.

Laws:

* The sidecar answers: status, body and headers are its own, and Django decides nothing about them.
* What is on its way is read no faster than it is taken, in both directions; nothing of a stream is kept here.
* Who goes away, or an end of either side, ends the other; how many there are at a time is bounded.
* Cookies stay here. One endpoint knows a session, GET /snapshot, by a token that is minted for it.
"""
