"""The text of the smallest Channels project that fans out, written to a temporary folder and run under Daphne."""

PROJECT = '''\
"""One publisher, groups named by subject, the in-memory layer."""

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="benchmark",
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["channels"],
    CHANNEL_LAYERS={
        "default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000000, "expiry": 3600}}
    },
)
django.setup()

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path


class Subscriber(AsyncWebsocketConsumer):
    """The address names the subjects; the text "ready" says that all of them are joined."""

    async def connect(self):
        self.subjects = self.scope["url_route"]["kwargs"]["subjects"].split(",")
        for subject in self.subjects:
            await self.channel_layer.group_add(subject, self.channel_name)
        await self.accept()
        await self.send("ready")

    async def disconnect(self, code):
        for subject in self.subjects:
            await self.channel_layer.group_discard(subject, self.channel_name)

    async def publication(self, event):
        await self.send(event["text"])


class Publisher(AsyncWebsocketConsumer):
    """Each message is a subject, a space and the text."""

    async def receive(self, text_data=None, bytes_data=None):
        subject, _, text = text_data.partition(" ")
        await self.channel_layer.group_send(subject, {"type": "publication", "text": text})


application = ProtocolTypeRouter(
    {
        "websocket": URLRouter(
            [path("sub/<str:subjects>", Subscriber.as_asgi()), path("pub", Publisher.as_asgi())]
        )
    }
)
'''
