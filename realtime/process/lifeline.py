"""Run a command that dies with the process that started it: python lifeline.py PARENT COMMAND [ARGUMENT …].

A file of its own, which imports nothing of ours: it stands between a supervisor with threads, where Python's
preexec_fn could deadlock, and the command, which it becomes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # SIGKILL: whoever ends the parent that hard gets no orderly stop, but nothing stays behind.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it died before it could be noticed
    # The terminal sends these to every process in the foreground; the parent ends its children in order instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the command is the parent's


if __name__ == "__main__":
    main()
