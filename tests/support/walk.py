"""The sidecar with a record of its own calls: ``python -m tests.support.walk SOCKET``.

Whoever connects to the unix socket says ``b`` to have the calls of the loop's thread recorded from now on, and ``e`` to
get them when the loop is idle: a JSON list of ``[depth, function, file]``, in a line. What the event loop itself calls
has depth 1.
"""

from __future__ import annotations

import json
import runpy
import socket
import sys
import threading
from asyncio import runners
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PRODUCT = f"{ROOT / 'fastpath'}/"
LOOP = runners.__file__
"""Where the innermost frame is while the loop waits, and above which it calls us."""

PARTS = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
"""Not functions: later versions of Python run them within the one that they stand in."""

Call = tuple[int, str, str]


class Recorder:
    """Records the calls of one thread while it is asked to."""

    def __init__(self) -> None:
        self.calls: list[Call] | None = None

    def event(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function."""
        if self.calls is None or event != "call" or not is_ours(frame):
            return
        depth, outer = 0, frame
        while outer.f_code.co_filename != LOOP:
            depth += is_ours(outer)
            if outer.f_back is None:
                return
            outer = outer.f_back
        code = frame.f_code
        self.calls.append((depth, code.co_qualname, code.co_filename.removeprefix(f"{ROOT}/")))

    def serve(self, path: str, thread: int) -> None:
        """Answer one peer after the other; ``thread`` is that of the loop."""
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            while True:
                peer, _ = listening.accept()
                with peer:
                    while asked := peer.recv(1):
                        until(lambda: sys._current_frames()[thread].f_code.co_filename == LOOP)
                        if asked == b"b":
                            self.calls = []
                            peer.sendall(b"\n")
                        else:
                            calls, self.calls = self.calls, None
                            peer.sendall(json.dumps(calls).encode() + b"\n")


def is_ours(frame: FrameType) -> bool:
    """Whether it is that of a function of the product."""
    code = frame.f_code
    return code.co_filename.startswith(PRODUCT) and code.co_name not in PARTS


def main() -> None:
    """Run it as ``python -m fastpath`` does."""
    recorder = Recorder()
    arguments = sys.argv.pop(), threading.get_ident()
    threading.Thread(target=recorder.serve, args=arguments, daemon=True).start()
    sys.setprofile(recorder.event)
    runpy.run_module("fastpath", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
