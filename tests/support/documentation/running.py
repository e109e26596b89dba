"""Blocks of the pages that run in this process or in a shell, with this test's addresses instead of those printed."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support.sidecar import Sidecar

ADDRESSES = (
    "ws://a.example.com:8800/ws",
    "ws://b.example.com:8800/ws",
    "ws://127.0.0.1:8800/ws",
)
PUBLISHERS = ("a.example.com:8801,b.example.com:8801", "a.example.com:8801", "127.0.0.1:8801")


def here(text: str, sidecar: Sidecar) -> str:
    """The text with a sidecar's addresses."""
    for address in ADDRESSES:
        text = text.replace(address, sidecar.client_url)
    for address in PUBLISHERS:
        text = text.replace(address, sidecar.publisher_url)
    client = sidecar.client_url.removeprefix("ws://").removesuffix("/ws")
    return text.replace("127.0.0.1:8800", client)


class Run:
    """A block that runs: what it prints, and the names that it has."""

    def __init__(self, text: str, given: Mapping[str, Any]) -> None:
        self.printed: list[str] = []
        self.names: dict[str, Any] = {"__name__": "block", "print": self._print, **given}
        self._code = compile(text, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def _print(self, *values: Any) -> None:
        self.printed.append(" ".join(map(str, values)))

    def now(self) -> Run:
        """To its end."""
        exec(self._code, self.names)  # noqa: S102 - our own page
        return self

    @asynccontextmanager
    async def meanwhile(self) -> AsyncIterator[Run]:
        """As at the prompt of `python -m asyncio`, until the block of the test ends; what it raises is raised."""
        task = asyncio.create_task(self.wait())
        try:
            yield self
        finally:
            is_over = task.done()
            task.cancel()
            if is_over:
                task.result()
            await asyncio.gather(task, return_exceptions=True)

    async def wait(self) -> Run:
        """To its end, with `await` at the outermost level."""
        coroutine = eval(self._code, self.names)  # noqa: S307 - our own page
        if coroutine is not None:
            await coroutine
        return self


def shell(text: str, **environment: str) -> str:
    """What a block of commands prints."""
    given = os.environ | {"NO_PROXY": "*"} | environment
    argv = ["bash", "-e", "-c", text]
    return subprocess.run(argv, env=given, capture_output=True, text=True, check=True, timeout=60).stdout
