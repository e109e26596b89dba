"""What this machine lets a run do: some faults need root, and more than every root is given."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache


@lru_cache
def no_namespaces() -> str:
    """Why the network cannot be parted here; empty when it can."""
    name = f"fc{os.getpid()}"
    why = _try("ip", "netns", "add", name)
    if not why:
        why = _try("ip", "-n", name, "link", "set", "lo", "up")
        _try("ip", "netns", "del", name)
    return why


@lru_cache
def no_mounts() -> str:
    """Why a small file system cannot be made here; empty when it can."""
    with tempfile.TemporaryDirectory() as folder:
        return _try("mount", "-t", "tmpfs", "-o", "size=64k", "none", folder) or _try("umount", folder)


def _try(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return (
        "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1:][0] if done.stderr.strip() else "refused"
    )
