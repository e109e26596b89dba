"""Hooks of a project, for tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from django.contrib.auth.models import User

from realtime.hooks import Answer, Hook, Request, allow, deny, disconnect


class Deciding(Hook):
    """A token is the name of its bearer; what a subject's last segment says, happens."""

    threads = 8

    def __init__(self) -> None:
        self.closed_rooms: set[str] = set()
        self.release = threading.Event()
        self.gone: list[tuple[str, int]] = []
        self.asked: list[tuple[str, str, str]] = []

    def connect(self, request: Request) -> Answer:
        """Nobody without a name, and not everybody."""
        self.asked.append(("connect", request.user, ""))
        if request.token == "banned":
            return disconnect("you again")
        if request.token == "crash":
            raise ValueError("no such user")
        if not request.token and not request.user:
            return deny("who are you?")
        request.notice(f"hello from {request.address or request.kind}")
        return allow(user=request.token)

    def subscribe(self, request: Request, subject: str) -> Answer:
        """``raise`` raises, ``nothing`` answers nothing, ``sleep`` takes until the test ends it."""
        self.asked.append(("subscribe", request.user, subject))
        match subject.rpartition("/")[2]:
            case "raise":
                raise ValueError("a fault of the hook")
            case "nothing":
                return None  # type: ignore[return-value]
            case "sleep":
                self.release.wait(30)
        return deny("the room is closed") if subject in self.closed_rooms else allow()

    async def publish(self, request: Request, subject: str) -> Answer:
        """In the loop; ``sleep`` takes too long, and is given up."""
        if subject.endswith("/sleep"):
            await asyncio.sleep(30)
        return allow(seconds=60) if request.user != "reader" else deny("you only read")

    def disconnect(self, request: Request, code: int, reason: str) -> None:
        """Noted."""
        self.gone.append((request.user, code))


class Members(Hook):
    """Decides by what the database says, of many subjects at once."""

    def connect(self, request: Request) -> Answer:
        """The token is the name of an active user."""
        user = User.objects.filter(username=request.token, is_active=True).first()
        return allow(user=user.username) if user else deny("no such user")

    def subscribe_many(self, request: Request, subjects: Sequence[str]) -> Sequence[Answer]:
        """Everybody reads below his own name."""
        return [allow() if f"/{request.user}/" in subject else deny("not yours") for subject in subjects]


class Nothing(Hook):
    """Overrides nothing."""
