"""One connection of a page to a room."""

from __future__ import annotations

from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer


def group_of(room: str) -> str:
    """The name of a room's group."""
    return f"chat.{room}"


class ChatConsumer(AsyncJsonWebsocketConsumer):
    """Says to all in the room what one says."""

    async def connect(self) -> None:
        """Come in."""
        self.group = group_of(self.scope["url_route"]["kwargs"]["room"])
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        """Go out."""
        await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive_json(self, content: Any, **_: Any) -> None:
        """Somebody says something."""
        await self.channel_layer.group_send(self.group, {"type": "chat.said", "text": str(content["text"])[:1000]})

    async def chat_said(self, event: dict[str, Any]) -> None:
        """Somebody in the room has said something, in whatever process."""
        await self.send_json({"text": event["text"]})
