"""Server-Sent Events without I/O (WHATWG HTML 9.2): framing, what a bare reader is told, and its cursor.

Laws:

* An event is whole: whoever splits a queue of them finds each as it was framed.
* A cursor that a reader is given says no more than that it has been sent everything up to there.
* What cannot be resumed is told as ``resynchronised``, never left out.
"""
