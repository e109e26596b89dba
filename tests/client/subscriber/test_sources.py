"""A program's own functions, for the token and the list of servers, that do not answer: the client goes on without."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastpath.client import Status, Unavailable, connect
from fastpath.client.asking import ask
from fastpath.client.blocking import connect as connect_blocking
from tests.support.reconnecting import SOON
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import auntil, until

OVER = threading.Event()


@pytest.fixture(autouse=True)
def over() -> Iterator[None]:
    """What hangs does so until its test is over."""
    OVER.clear()
    yield
    OVER.set()


async def never() -> str:
    """Waits for ever."""
    return await asyncio.get_running_loop().create_future()


async def deaf() -> str:
    """Does not let itself be cancelled either."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if OVER.is_set():
                raise


def stuck() -> str:
    """Waits in its thread, as with a library of HTTP that has no limit of time."""
    OVER.wait()
    return "too late"


class Called:
    """An object that is called."""

    async def __call__(self) -> str:
        return await never()


class Source:
    """Answers its tokens one after the other, the last for ever; None: it hangs."""

    def __init__(self, *tokens: str | None) -> None:
        self.asked = 0
        self._tokens = tokens

    def next(self) -> str | None:
        self.asked += 1
        return self._tokens[min(self.asked, len(self._tokens)) - 1]

    async def later(self) -> str:
        return self.next() or await never()

    def plain(self) -> str:
        return self.next() or stuck()


@pytest.mark.parametrize(
    "source", [never, deaf, stuck, Called(), lambda: never()], ids=["never", "deaf", "stuck", "object", "lambda"]
)
async def test_what_does_not_answer_has_failed(source: Any) -> None:
    with pytest.raises(TimeoutError, match=r"the token: no answer within 0\.05 s"):
        await ask(source, 0.05, "the token")
    OVER.set()


async def test_what_a_source_raises_comes_out_of_it() -> None:
    async def cancelled() -> str:
        raise asyncio.CancelledError

    def stopped() -> str:
        raise StopIteration

    def left() -> str:
        raise SystemExit("enough")

    sources: list[tuple[Callable[[], Any], str]] = [(cancelled, "cancelled"), (stopped, "StopIter"), (left, "enough")]
    for source, word in sources:
        with pytest.raises(RuntimeError, match=word):
            await ask(source, 10, "the token")


@pytest.mark.parametrize("name", ["later", "plain"])
async def test_at_the_start_it_is_told_and_asked_again(sidecar: Sidecar, name: str) -> None:
    """As if it had failed: told with the wait until the next attempt."""
    told: list[Status] = []
    source = getattr(Source(None, "any"), name)
    async with connect(sidecar.client_url, source, on_status=told.append, token_seconds=0.1, **SOON):
        assert [status.name for status in told] == ["disconnected", "down", "connected"]
    assert "no answer within 0.1 s" in told[0].reason
    assert told[0].retry_seconds > 0


async def test_who_enters_is_told_what_is_waited_for(sidecar: Sidecar) -> None:
    with pytest.raises(Unavailable, match="token is being asked for"):
        async with connect(sidecar.client_url, never, timeout_seconds=0.1):
            raise AssertionError("there is no token")


async def test_at_a_renewal_it_is_told_and_asked_again() -> None:
    """The connection lives on meanwhile."""
    soon, late = mint_jwt("ann", both=["/**"], hours=4 / 3600), mint_jwt("ann", both=["/**"])

    async def renewed(url: str, name: str) -> None:
        told: list[Status] = []
        source = getattr(Source(soon, None, late), name)
        async with connect(url, source, on_status=told.append, token_seconds=0.1):
            await auntil(lambda: "renewed" in [status.name for status in told])
        heard = [status for status in told if status.name not in ("expiring", "closed")]
        assert [status.name for status in heard] == ["connected", "error", "renewed"]
        assert "no answer within 0.1 s" in heard[1].reason

    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        await asyncio.gather(renewed(sidecar.client_url, "later"), renewed(sidecar.client_url, "plain"))


async def test_a_list_of_servers_that_does_not_come(sidecar: Sidecar) -> None:
    """The servers that are known serve."""

    async def connected(source: Callable[[], Any]) -> None:
        async with connect(sidecar.client_url, servers_url=source) as client:
            assert client.connected

    await asyncio.gather(connected(never), connected(stuck))


def test_the_blocking_client_is_not_held_up(sidecar: Sidecar) -> None:
    source = Source("any", None)
    with connect_blocking(sidecar.client_url, source.plain, token_seconds=0.1) as client:
        client.pause()
        client.resume()
        until(lambda: source.asked == 2 and client.connected)
