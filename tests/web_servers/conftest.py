"""Folders that web servers may read."""

from __future__ import annotations

import grp
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For files and sockets, as the pages say: Debian's group of web servers may open what is in it, and nobody else.

    Its path is short enough for a unix socket.
    """
    made = Path(tempfile.mkdtemp(prefix="fp-web-"))
    if os.geteuid() == 0:
        os.chown(made, -1, grp.getgrnam("www-data").gr_gid)
        made.chmod(0o2750)
    try:
        yield made
    finally:
        shutil.rmtree(made)
