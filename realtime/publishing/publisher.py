"""publish() and its family: send messages from any Django code, once its transaction has committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import AsyncToSync, sync_to_async

from fastpath.client.errors import SidecarUnavailable
from fastpath.client.message import AsOf
from realtime.conf import conf
from realtime.publishing.commit_hook import after_commit, open_transaction
from realtime.publishing.contents import Content
from realtime.publishing.outbox.writing import write
from realtime.publishing.outcomes import (
    MessageTooLarge,
    NotEncodable,
    OutboxFull,
    Position,
    PublishFailed,
    PublishManyFailed,
    PublishRefused,
    ShuttingDown,
)
from realtime.publishing.rows import Publication, Row, checked, checked_all
from realtime.publishing.sending import asend, send
from realtime.publishing.tracing import traced
from realtime.publishing.user_subjects import PATH, user_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = TypeVar("_Function", bound=Callable[..., Any])

    def async_unsafe(message: str) -> Callable[[_Function], _Function]:
        """Mark a function as Django's decorator does, which has no types for those who do not install them."""
else:
    from django.utils.asyncio import async_unsafe

__all__ = [
    "MessageTooLarge",
    "NotEncodable",
    "OutboxFull",
    "Position",
    "Publication",
    "PublishFailed",
    "PublishManyFailed",
    "PublishRefused",
    "ShuttingDown",
    "SidecarUnavailable",
    "apublish",
    "apublish_many",
    "apublish_to_user",
    "aremove",
    "publish",
    "publish_many",
    "publish_now",
    "publish_to_user",
    "remove",
    "user_subject",
]

_IN_ASYNC_CODE = (
    "{0}() waits for the sidecar's answer and would hold up the event loop: call it as `await a{0}(…)`, "
    "or as `await sync_to_async({0})(…)`."
)
"""Text of the error for asynchronous code. A thread would be no way out: it knows nothing of the caller's
transaction."""

Messages = Iterable[
    Publication | tuple[str, Content] | tuple[str, Content, Mapping[str, Content] | None] | Mapping[str, Any]
]
"""Messages of publish_many(): each a Publication, a tuple of its first values, or a dict of those by their names."""


@async_unsafe(_IN_ASYNC_CODE.format("publish"))
def publish(
    subject: str,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    retained: bool = True,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    reply_to: str | None = None,
    closure: str | None = None,
    replace: bool = False,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Publish after the commit of the open transaction, or at once outside of one.

    The transaction is that of the database ``using``, without it that of whichever database has one. Returns the
    position when it was sent at once, else None; what is rolled back publishes nothing, and all messages of a
    transaction are sent together. ``retained`` False leaves the snapshot as it is; ``qos`` is ``"guaranteed"`` or
    ``"standard"`` (protocol.md 3.4); ``as_of`` says as of when the data is (5.2); ``reply_to`` is a subject that
    answers go to, and ``closure`` a text of the publisher's own: both reach the subscribers. With ``replace`` no field
    of before stays in the snapshot. ``fail_silently``: that no sidecar took the message is logged and counted instead
    of raised, and None is returned.

    Raises TypeError or PublishRefused (NotEncodable, MessageTooLarge) at once for what can never be sent;
    TransactionManagementError when it is not clear which commit to wait for; SynchronousOnlyOperation in asynchronous
    code. That no node could store it, or none answers within REALTIME["PUBLISH_SECONDS"], is logged and counted, and
    None is returned. With REALTIME["ON_FAILURE"] it raises PublishFailed and SidecarUnavailable then, inside a
    transaction at its first message, so that it can still be rolled back: docs/develop/publishing.md.
    """
    rows = [checked(Publication(subject, content, fields, retained, qos, as_of, reply_to, closure, replace))]
    return _first(_publish(rows, using, fail_silently))


@async_unsafe(_IN_ASYNC_CODE.format("remove"))
def remove(
    subject: str,
    *,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    closure: str | None = None,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Remove the subject: its snapshot is gone, and its subscribers are told once, in order with all else.

    What is published there later begins with nothing. A removal is a message as those of publish(), after the commit as
    well, with what publish() says of the arguments, of what is returned and of what is raised; in publish_many() it is
    a Publication with empty content that is ``removed``.
    """
    return _first(_publish([_removal(subject, qos, as_of, closure)], using, fail_silently))


@async_unsafe(_IN_ASYNC_CODE.format("publish_many"))
def publish_many(messages: Messages, *, using: str | None = None, fail_silently: bool = False) -> list[Position] | None:
    """Publish several messages, in their order and in as few frames as they take.

    All are checked first: where one cannot be sent none is. Returns their positions, or None inside a transaction, and
    where ``fail_silently`` has failures logged. Raises what publish() raises, with a note that says at which message;
    PublishManyFailed, which has what became of each, when some were stored and others not.
    """
    return _publish(checked_all(messages), using, fail_silently)


@async_unsafe(_IN_ASYNC_CODE.format("publish_to_user"))
def publish_to_user(
    user: Any,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    path: str = PATH,
    retained: bool = True,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    reply_to: str | None = None,
    closure: str | None = None,
    replace: bool = False,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Publish to a subject of the user's own, ``/user/NAME/PATH``, which that user may read without a rule.

    ``user`` is a user object or a user's name, ``path`` what is behind it: user_subject() says the subject. All else is
    as in publish(), and so is what is raised; PublishRefused also for somebody without a name.
    """
    subject = user_subject(user, path)
    rows = [checked(Publication(subject, content, fields, retained, qos, as_of, reply_to, closure, replace))]
    return _first(_publish(rows, using, fail_silently))


async def apublish(
    subject: str,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    retained: bool = True,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    reply_to: str | None = None,
    closure: str | None = None,
    replace: bool = False,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Publish as publish() does, in asynchronous code.

    Such code has no transaction of its own, and the message is sent at once; under ``async_to_sync()`` it waits for the
    commit of the code that called. A call that is cancelled may have been published. Raises what publish() raises, and
    ShuttingDown when the process ends.
    """
    rows = [checked(Publication(subject, content, fields, retained, qos, as_of, reply_to, closure, replace))]
    return _first(await _apublish(rows, using, fail_silently))


async def aremove(
    subject: str,
    *,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    closure: str | None = None,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Remove as remove() does, in asynchronous code: apublish() says what differs."""
    return _first(await _apublish([_removal(subject, qos, as_of, closure)], using, fail_silently))


async def apublish_many(
    messages: Messages, *, using: str | None = None, fail_silently: bool = False
) -> list[Position] | None:
    """Publish as publish_many() does, in asynchronous code: apublish() says what differs."""
    return await _apublish(checked_all(messages), using, fail_silently)


async def apublish_to_user(
    user: Any,
    content: Content,
    fields: Mapping[str, Content] | None = None,
    *,
    path: str = PATH,
    retained: bool = True,
    qos: str = "guaranteed",
    as_of: AsOf | None = None,
    reply_to: str | None = None,
    closure: str | None = None,
    replace: bool = False,
    using: str | None = None,
    fail_silently: bool = False,
) -> Position | None:
    """Publish as publish_to_user() does, in asynchronous code: apublish() says what differs."""
    subject = user_subject(user, path)
    rows = [checked(Publication(subject, content, fields, retained, qos, as_of, reply_to, closure, replace))]
    return _first(await _apublish(rows, using, fail_silently))


def publish_now(
    subject: str, content: Content, fields: Mapping[str, Content] | None = None, *, retained: bool = True, qos: str
) -> Position:
    """Publish now, whatever transaction is open, raise every failure whatever the settings say: for an operator."""
    [position] = send([checked(Publication(subject, content, fields, retained, qos))], loud=True) or []
    return position


def _removal(subject: str, qos: str, as_of: AsOf | None, closure: str | None) -> Row:
    return checked(Publication(subject, "", qos=qos, as_of=as_of, closure=closure, removed=True))


def _publish(rows: list[Row], using: str | None, silent: bool) -> list[Position] | None:
    if not rows:
        return []
    with traced(rows):
        if conf.outbox:
            write(rows, using, silent)
            return None
        connection = open_transaction(using)
        if connection is None:
            return send(rows, silent=silent)
        after_commit(connection, rows, silent)
        return None


async def _apublish(rows: list[Row], using: str | None, silent: bool) -> list[Position] | None:
    # A row of the outbox is written in a thread as well, Django's own for its databases.
    if conf.outbox or _has_waiting_caller():
        return await sync_to_async(_publish)(rows, using, silent)
    if not rows:
        return []
    with traced(rows):
        return await asend(rows, silent=silent)


def _has_waiting_caller() -> bool:
    """Return True if async_to_sync() runs this for code that waits in its own thread, which may be in a transaction.

    That holds also of a task whose context tells nothing: a loop that was made for that does nothing else.
    """
    if getattr(AsyncToSync.executors, "current", None) is not None:
        return True
    return asyncio.get_running_loop() in AsyncToSync.loop_thread_executors


def _first(positions: Sequence[Position] | None) -> Position | None:
    return positions[0] if positions else None
