"""Found by itself, as in any project."""

from __future__ import annotations

import asyncio
import threading

from django.contrib.auth.models import User

from realtime import Reply, ResponderError, respond
from realtime.requests.responders import Request

released, began = threading.Event(), threading.Semaphore(0)


@respond("/answers/**")
def answer(request: Request) -> Reply | str | None:
    """What the last segment says."""
    match request.subject.rpartition("/")[2]:
        case "error":
            raise ResponderError("no_such_stock", "there is no ZZZ")
        case "fault":
            raise ValueError("a secret")
        case "number":
            return 7  # type: ignore[return-value]
        case "nothing":
            return None
        case "three":
            request.reply("1")
            request.reply(b"2", {"n": "two"})
        case "users":
            return str(User.objects.count())
        case "wait":
            began.release()
            released.wait(10)
    return Reply(request.content, {"user": request.user, **request.fields})


@respond("/answers/longer/*")
async def longer(request: Request) -> str:
    """A coroutine function, for a pattern that says more."""
    await asyncio.sleep(0)
    return f"async {request.content!r}"
