"""manage.py say ROOM TEXT: says something in a room, from another process than the room's."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.core.management.base import BaseCommand

from chat.consumers import group_of


class Command(BaseCommand):
    """What a task or a view would do."""

    help = "Say something in a room."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """ROOM TEXT."""
        parser.add_argument("room")
        parser.add_argument("text")

    def handle(self, *_: Any, **options: Any) -> None:
        """Say it."""
        layer = get_channel_layer()
        async_to_sync(layer.group_send)(group_of(options["room"]), {"type": "chat.said", "text": options["text"]})
