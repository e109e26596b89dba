"""The Python client keeps its token fresh, also while none can be had for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from fastpath.client import connect
from fastpath.client.subscriber.renewal import AGAIN_SECONDS_MAX, Renewal
from tests.support.reconnecting import SOON
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, auntil


def one_after_the_other(*tokens: str | None) -> Callable[[], str]:
    """A source of tokens, the last for ever; one that is None cannot be had."""
    left = list(tokens)

    def source() -> str:
        token = left.pop(0) if len(left) > 1 else left[0]
        if token is None:
            raise OSError("there is none at the moment")
        return token

    return source


def ann(seconds: float) -> str:
    """A token that ends so soon."""
    return mint_jwt("ann", both=["/**"], hours=seconds / 3600)


@pytest.mark.parametrize(("left", "after"), [(43_200, 43_140), (119, 59.5), (30, 15), (0, 0), (-5, 0)])
def test_when_a_token_is_renewed(left: float, after: float) -> None:
    renewal = Renewal()
    renewal.taken(100, left)
    renewal.expiring(101)
    assert renewal.at == 100 + after


def test_a_failed_renewal_comes_again_later_and_later() -> None:
    renewal = Renewal()
    renewal.expiring(0)
    waits = []
    for now in range(6):
        renewal.begun()
        renewal.failed(now)
        waits.append(renewal.at - now)
    assert waits == [1, 2, 4, 8, AGAIN_SECONDS_MAX, AGAIN_SECONDS_MAX]
    renewal.taken(0, None)
    assert renewal.at == float("inf")


@pytest.mark.slow
async def test_a_connection_outlives_its_first_token() -> None:
    source = one_after_the_other(ann(6), None, ann(60))
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        async with connect(sidecar.client_url, source, on_status=(told := []).append) as client:
            stream = client.subscribe("/a/a")
            end = time.monotonic() + 6.5
            await auntil(lambda: time.monotonic() > end)
            await client.publish("/a/a", "after")
            assert (await anext(stream)).content == "after"
    names = [status.name for status in told]
    assert "disconnected" not in names
    assert names.index("error") < names.index("renewed")


@pytest.mark.slow
async def test_after_4007_it_comes_back_when_a_token_can_be_had() -> None:
    source = one_after_the_other(ann(3), None, None, None, ann(60))
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar:
        async with (
            connect(sidecar.client_url, source, on_status=(told := []).append, **SOON) as client,
            connect(sidecar.client_url, ann(60)) as other,
        ):
            stream = client.subscribe("/a/a")
            await auntil(lambda: any(status.code == 4007 for status in told))
            await other.publish("/a/a", "missed")
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await anext(stream)).content == "missed"
    assert "synchronised" in [status.name for status in told]
