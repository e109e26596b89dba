"""The subjects of a user's own, below ``/user/NAME/``: that user may read them without a rule (protocol.md 2.4)."""

from __future__ import annotations

from typing import Any

from fastpath.core.protocol.subject import USERS, user_segment
from realtime.publishing.contents import plain
from realtime.publishing.outcomes import PublishRefused

PATH = "messages"
"""Path behind the name where nothing else is said."""


def user_subject(user: Any, path: str = PATH) -> str:
    """Return the subject ``/user/NAME/PATH`` of a user, given as an object or by the name: ``/user/ann/messages``.

    ``path`` has a segment or more. What the name has that no segment can hold is written with ``%``: ``a/b`` is
    ``a%2Fb``. Raises TypeError for what is no user, PublishRefused for somebody without a name.
    """
    name = plain(user.get_username() if hasattr(user, "get_username") else user)
    if not isinstance(name, str):
        raise TypeError(f"a user is an object with get_username(), or a name, not {type(user).__name__}")
    if not name:
        raise PublishRefused("invalid", "nobody is signed in there: only a user with a name has subjects", repr(user))
    path = plain(path)
    if not isinstance(path, str):
        raise TypeError(f"path is a text, the segments behind the name, not {type(path).__name__}")
    return f"/{USERS}/{user_segment(name)}/{path.removeprefix('/')}"
