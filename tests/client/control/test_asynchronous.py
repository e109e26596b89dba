"""A loop's connection to a real control socket: answers, pushes, deadlines, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.asynchronous import AsyncControl, connect
from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError, ControlRefused, SidecarSilent, SidecarUnavailable
from tests.support.certificates import Certificate
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil


async def opened(path: str, told: list[Any] | None = None) -> AsyncControl:
    """A connection that notes pushes, and its end as None."""
    notes: list[Any] = [] if told is None else told
    return await connect(
        path, "tests/1", 5, lambda name, content: notes.append((name, content)), lambda: notes.append(None)
    )


async def test_answers_belong_to_their_requests_in_any_order(sidecar: Sidecar) -> None:
    control = await opened(sidecar.control)
    late = asyncio.create_task(control.call("channel_receive", {"channel": "a"}, 5))
    hello, stats = await asyncio.gather(control.call("hello", {}, 5), control.call("stats", {}, 5))
    assert (hello["pid"], "connections" in stats) == (sidecar.pid, True)
    await control.call("channel_send", {"channel": "a", "message": b"1", "capacity": 1, "seconds": 5}, 5)
    assert (await late)["message"] == b"1"
    with pytest.raises(ControlRefused, match="verbs: publish, hello"):
        await control.call("nonsense", {}, 5)
    with pytest.raises(ControlRefused, match="too_large"):
        await control.call("channel_send", {"message": bytes(17 << 20)}, 5)
    control.close()


async def test_what_was_not_asked_is_pushed(sidecar: Sidecar) -> None:
    told: list[Any] = []
    control = await opened(sidecar.control, told)
    await control.call("channel_open", {"process": "p"}, 5)
    with Control(sidecar.control) as other:
        other.call("channel_flush", {"prefix": "x"})
    await auntil(lambda: told)
    assert told == [("channel_flushed", {"prefix": "x"})]
    control.close()


async def test_the_end_of_the_sidecar_is_told_once_behind_what_was_asked(sidecar: Sidecar) -> None:
    told: list[Any] = []
    control = await opened(sidecar.control, told)

    def answered(answer: Any, error: ClientError | None) -> None:
        told.append(type(error))

    control.ask("channel_receive", {"channel": "a"}, answered)
    await control.call("hello", {}, 5)
    sidecar.kill()
    await auntil(lambda: not control.open)
    control.close()
    assert told == [SidecarUnavailable, None]
    with pytest.raises(SidecarUnavailable, match="the connection is closed"):
        await control.call("hello", {}, 5)


async def test_nobody_at_the_socket_and_no_socket(sidecar: Sidecar) -> None:
    sidecar.kill()
    with pytest.raises(SidecarUnavailable, match="Connection refused"):
        await opened(sidecar.control)
    with pytest.raises(SidecarUnavailable, match="No such file"):
        await opened(sidecar.control + "-of-another")


async def test_a_sidecar_that_hangs_is_given_up_in_time(sidecar: Sidecar) -> None:
    control = await opened(sidecar.control)
    os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        with pytest.raises(SidecarSilent, match=r"no answer within 0\.1 s"):
            await control.call("hello", {}, 0.1)
        assert not control.open
        with pytest.raises(SidecarSilent, match=r"no answer within 0\.1 s"):
            await connect(sidecar.control, "tests/1", 0.1, lambda *_: None, lambda: None)
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)


async def test_a_call_that_is_cancelled_leaves_the_connection_to_others(sidecar: Sidecar) -> None:
    control = await opened(sidecar.control)
    call = asyncio.create_task(control.call("channel_receive", {"channel": "a"}, 5))
    await control.call("hello", {}, 5)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await control.call("channel_send", {"channel": "a", "message": b"1", "capacity": 1, "seconds": 5}, 5)
    assert (await control.call("hello", {}, 5))["pid"] == sidecar.pid
    control.close()


async def test_a_sidecar_on_another_host(tmp_path: Path) -> None:
    for name in "server", "django":
        (tmp_path / name).mkdir()
    server, django = Certificate(tmp_path / "server"), Certificate(tmp_path / "django")
    listen = f"clients://127.0.0.1:0,control+tls://127.0.0.1:0?{server.options}&ca={django.cert}"
    with Sidecar(listen=listen) as sidecar:
        [address] = sidecar.ready["control_tls"]
        control = await opened(f"tls://{address}?ca={server.cert}&{django.options}")
        assert (await control.call("hello", {}, 5))["pid"] == sidecar.pid
        control.close()
        with pytest.raises(SidecarUnavailable):  # by another authority
            await opened(f"tls://{address}?ca={django.cert}&{django.options}")
        with pytest.raises(ValueError, match="a control address is"):
            await opened("tls://127.0.0.1")
