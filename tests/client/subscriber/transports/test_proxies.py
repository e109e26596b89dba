"""The Python client and proxies: those that it is given, and those of the environment."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fastpath.client import Status, Unavailable, connect
from fastpath.client.servers import is_loopback
from fastpath.client.subscriber.transports.proxies import named, proxy_of
from tests.support.reconnecting import SOON
from tests.support.sidecar import ROOT, Sidecar
from tests.support.socks import socks
from tests.support.waiting import auntil

NAMES = ("ws_proxy", "wss_proxy", "http_proxy", "https_proxy", "socks_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def tunnels(answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that takes CONNECT: its address, and the heads of the requests that it got."""
    heads: list[str] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        writer.write(answer)
        if b" 200 " not in answer:
            writer.close()
            return
        host, _, port = head.split()[1].rpartition(":")
        back, forth = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, forth), pump(back, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "::2", "example.com", ""])
def test_another(host: str) -> None:
    assert not is_loopback(host)


def test_which_proxy_leads_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    monkeypatch.setenv("no_proxy", "no.example.com")
    far, near, left_out = "wss://example.com/ws", "wss://127.0.0.1:8800/ws", "wss://no.example.com/ws"
    assert [proxy_of(url, True) for url in (far, near, left_out)] == ["http://proxy:1", None, None]
    assert [proxy_of(url, None) for url in (far, near)] == [None, None]
    assert [proxy_of(url, "http://mine:2") for url in (far, near)] == ["http://mine:2", "http://mine:2"]
    assert named("http://me:secret@mine:2") == "http://mine:2"


@pytest.mark.parametrize("name", ["socks_proxy", "all_proxy", "https_proxy", "http_proxy", "ws_proxy"])
async def test_none_of_the_environment_is_asked_for_this_machine(
    sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        scheme = "socks5" if name in ("socks_proxy", "all_proxy") else "http"
        monkeypatch.setenv(name, f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}")
        told: list[Status] = []
        async with connect(sidecar.client_url, on_status=told.append):
            assert [(status.name, status.transport) for status in told] == [("connected", "websocket")]


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_every_transport_goes_by_way_of_it(sidecar: Sidecar, transport: str) -> None:
    async with tunnels() as (proxy, heads):
        given = proxy.replace("http://", "http://me:secret@")
        async with connect(sidecar.client_url, proxy=given, transports=[transport]) as client:
            stream = client.subscribe("/a/a")
            await client.publish("/a/a", "x")
            assert (await anext(stream)).content == "x"
        assert {head.split()[1] for head in heads} == {sidecar.client_url.split("/")[2]}
        assert all("Proxy-Authorization: Basic bWU6c2VjcmV0" in head for head in heads)


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_one_that_does_not_answer_is_told_of(sidecar: Sidecar, transport: str) -> None:
    """And who has the password is not."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        proxy = f"http://me:secret@127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(Unavailable, match="by way of the proxy http://127") as raised:
            async with connect(sidecar.client_url, proxy=proxy, transports=[transport], timeout_seconds=0.3):
                raise AssertionError("the proxy is deaf")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_one_that_refuses_is_told_of(sidecar: Sidecar, transport: str) -> None:
    told: list[Status] = []
    async with tunnels(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as (proxy, _):
        client = connect(sidecar.client_url, proxy=proxy, transports=[transport], on_status=told.append, **SOON)
        entering = asyncio.create_task(client.__aenter__())
        await auntil(lambda: [status.name for status in told].count("disconnected") >= 2)
        entering.cancel()
        await asyncio.wait({entering})
    assert "407" in told[0].reason


@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_a_package_that_is_missing_is_a_failed_attempt(sidecar: Sidecar, transport: str) -> None:
    """It says what to install, and the client goes on trying."""
    told: list[Status] = []
    client = connect(
        sidecar.client_url, proxy="socks5://127.0.0.1:1", transports=[transport], on_status=told.append, **SOON
    )
    entering = asyncio.create_task(client.__aenter__())
    await auntil(lambda: [status.name for status in told].count("disconnected") >= 2)
    entering.cancel()
    await asyncio.wait({entering})
    assert "pip install 'python-socks[asyncio]'" in told[0].reason


@pytest.mark.parametrize("proxy", ["127.0.0.1:3128", "ftp://proxy:1", "http://", "http://me:secret@proxy:1/path"])
def test_what_is_no_address_of_a_proxy(proxy: str) -> None:
    with pytest.raises(ValueError, match="a proxy is http://host:port") as raised:
        connect("ws://127.0.0.1:8800/ws", proxy=proxy)
    assert "secret" not in str(raised.value)


THROUGH_SOCKS = """
import asyncio, json, sys
from fastpath.client import connect
from fastpath.client.errors import Unavailable
url, proxy, transport, form = sys.argv[1:]
async def main():
    try:
        async with connect(url, form=form, proxy=proxy, transports=[transport], timeout_seconds=10) as client:
            stream = client.subscribe("/a/a")
            await client.publish("/a/a", "x")
            return (await anext(stream)).content
    except Unavailable as error:
        return str(error)
print(json.dumps(asyncio.run(main())))
"""


@pytest.fixture(scope="module")
def python_socks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the package that SOCKS needs, which the environment of the tests does not have."""
    folder = str(tmp_path_factory.mktemp("python-socks"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "python-socks[asyncio]"]
    subprocess.run(command, check=True, timeout=200)
    return folder


async def told_through(python_socks: str, *arguments: str) -> Any:
    """What a client in a process of its own says, which finds the package."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{python_socks}"}
    command = [sys.executable, "-c", THROUGH_SOCKS, *arguments]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return json.loads(output)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_through_a_real_socks_proxy(sidecar: Sidecar, python_socks: str, transport: str, scheme: str) -> None:
    """With a name and a password; with ``socks5h`` the proxy finds the host, by the name that the client was given."""
    url = sidecar.client_url.replace("127.0.0.1", "localhost")
    port = int(url.rpartition(":")[2].partition("/")[0])
    async with socks() as (address, asked):
        assert await told_through(python_socks, url, f"{scheme}://me:secret@{address}", transport, "json") == "x"
    host = "localhost" if scheme == "socks5h" else "127.0.0.1"
    assert {*asked} == {(host, port, "me:secret")}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("transport", ["websocket", "stream", "poll"])
async def test_a_socks_proxy_that_refuses_is_told_of(sidecar: Sidecar, python_socks: str, transport: str) -> None:
    async with socks(refuses=True) as (address, asked):
        given = f"socks5://me:secret@{address}"
        told = await told_through(python_socks, sidecar.client_url, given, transport, "json")
    assert asked
    assert f"by way of the proxy socks5://{address}" in told
    assert "secret" not in told
