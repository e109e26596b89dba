"""A chat room of Channels, whose project names the channel layer in one setting and is not changed otherwise."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pytest
import websockets
from asgiref.sync import async_to_sync
from channels.consumer import SyncConsumer
from channels.generic.websocket import AsyncWebsocketConsumer, WebsocketConsumer
from channels.layers import channel_layers, get_channel_layer
from channels.routing import URLRouter
from channels.testing import ApplicationCommunicator, WebsocketCommunicator
from django.urls import path

from fastpath.client.control.client import Control
from tests.support.ports import free_port
from tests.support.realtime.server import Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil

ROOM = "chat_lobby"
BACKEND = "realtime.layers.FastpathChannelLayer"
PATIENCE = 10
"""Seconds for what the communicators of Channels give one."""


class SyncRoom(WebsocketConsumer):  # type: ignore[misc, unused-ignore]
    """A room as it is written without ``async``."""

    def connect(self) -> None:
        async_to_sync(self.channel_layer.group_add)(ROOM, self.channel_name)
        self.accept()

    def disconnect(self, code: int) -> None:
        del code
        async_to_sync(self.channel_layer.group_discard)(ROOM, self.channel_name)

    def receive(self, text_data: str = "", bytes_data: bytes = b"") -> None:
        del bytes_data
        event = {"type": "chat.message", "message": json.loads(text_data)["message"]}
        async_to_sync(self.channel_layer.group_send)(ROOM, event)

    def chat_message(self, event: dict[str, Any]) -> None:
        self.send(text_data=json.dumps({"message": event["message"]}))


class AsyncRoom(AsyncWebsocketConsumer):  # type: ignore[misc, unused-ignore]
    """The same room in a loop."""

    async def connect(self) -> None:
        await self.channel_layer.group_add(ROOM, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        del code
        await self.channel_layer.group_discard(ROOM, self.channel_name)

    async def receive(self, text_data: str = "", bytes_data: bytes = b"") -> None:
        del bytes_data
        event = {"type": "chat.message", "message": json.loads(text_data)["message"]}
        await self.channel_layer.group_send(ROOM, event)

    async def chat_message(self, event: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps({"message": event["message"]}))


@pytest.fixture
def layer(sidecar: Sidecar, settings: Any, transactional_db: None) -> Any:
    """The setting, and nothing else; what a loop's connection was belongs to the test before.

    A consumer that ends closes the connections to the database that have become old in its thread, which is where the
    views of other tests have left theirs.
    """
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": BACKEND}}
    assert not channel_layers.backends
    return get_channel_layer()


@pytest.mark.parametrize("room", [SyncRoom, AsyncRoom])
async def test_everybody_in_the_room_gets_what_one_says(layer: Any, room: Any) -> None:
    application = URLRouter([path("ws/chat/", room.as_asgi())])
    people = [WebsocketCommunicator(application, "/ws/chat/") for _ in range(3)]
    for one in people:
        assert (await one.connect(PATIENCE))[0]
    await people[0].send_json_to({"message": "hello"})
    assert [await one.receive_json_from(PATIENCE) for one in people] == [{"message": "hello"}] * 3
    await people[2].disconnect(timeout=PATIENCE)
    await layer.group_send(ROOM, {"type": "chat.message", "message": "from a view"})
    assert [await one.receive_json_from(PATIENCE) for one in people[:2]] == [{"message": "from a view"}] * 2
    for one in people[:2]:
        await one.disconnect(timeout=PATIENCE)


class Thumbnails(SyncConsumer):  # type: ignore[misc, unused-ignore]
    """A worker: receives on a channel that it has by name."""

    def make(self, message: dict[str, Any]) -> None:
        async_to_sync(self.channel_layer.send)(message["answer_to"], {"type": "made", "of": message["of"]})


async def test_a_worker_consumer_receives_on_a_channel_by_its_name(layer: Any) -> None:
    answers = await layer.new_channel()
    worker = ApplicationCommunicator(Thumbnails.as_asgi(), {"type": "channel", "channel": "thumbnails"})
    await layer.send("thumbnails", {"type": "make", "of": "a.png", "answer_to": answers})
    await worker.send_input(await layer.receive("thumbnails"))  # as `manage.py runworker thumbnails` does
    assert await layer.receive(answers) == {"type": "made", "of": "a.png"}
    worker.stop()  # it would go on for ever; what has failed in it is raised


PROJECT = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="chat", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["daphne", "channels"], REALTIME={{"CONTROL": {control!r}}},
    CHANNEL_LAYERS={{"default": {{"BACKEND": "realtime.layers.FastpathChannelLayer"}}}},
)
django.setup()

from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path
from tests.realtime.channel_layer.test_chat import SyncRoom

application = ProtocolTypeRouter({{"websocket": URLRouter([path("ws/chat/", SyncRoom.as_asgi())])}})
"""


async def test_a_room_over_two_servers_outlasts_a_restart_of_the_sidecar(sidecar: Sidecar, tmp_path: Path) -> None:
    (tmp_path / "chat.py").write_text(PROJECT.format(control=sidecar.control))
    ports = [free_port(), free_port()]
    async with AsyncExitStack() as clients:
        with ExitStack() as servers:
            for port in ports:
                command = [sys.executable, "-m", "daphne", "-p", str(port), "chat:application"]
                servers.enter_context(Program(command, {"PYTHONPATH": f"{tmp_path}:."}, r"Listening on TCP"))
            people = [
                await clients.enter_async_context(websockets.connect(f"ws://127.0.0.1:{port}/ws/chat/"))
                for port in ports * 2
            ]
            for round_ in "before", "after":
                await people[0].send(json.dumps({"message": round_}))
                got = await asyncio.gather(*(asyncio.wait_for(one.recv(), PATIENCE_SECONDS) for one in people))
                assert [json.loads(one) for one in got] == [{"message": round_}] * 4
                if round_ == "before":
                    sidecar.kill()
                    await asyncio.to_thread(sidecar.start)
                    await auntil(lambda: _figure(sidecar, "channel_receivers") == 4)
            for one in people:
                await one.close()
            # Only then: a server whose loop ends in the midst of a synchronous disconnect() waits for that thread.
            await auntil(lambda: _figure(sidecar, "channel_memberships") == 0)


def _figure(sidecar: Sidecar, name: str) -> float:
    with Control(sidecar.control) as control:
        return float(control.stats()[name])
