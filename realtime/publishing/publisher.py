"""publish(): send a message from any Django code, once its transaction has committed."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.asyncio import async_unsafe

from fastpath.client.errors import ClientError, SidecarUnavailable
from realtime.conf import conf
from realtime.publishing.backends import backend
from realtime.publishing.commit_hook import after_commit, open_transaction
from realtime.publishing.failures import failures
from realtime.publishing.outcomes import Position, PublishFailed, PublishRefused
from realtime.publishing.rows import Row, Value, checked

__all__ = ["Position", "PublishFailed", "PublishRefused", "publish", "publish_now"]

_IN_ASYNC_CODE = (
    "publish() waits for the sidecar's answer and would hold up the event loop: "
    "call it as `await sync_to_async(publish, thread_sensitive=False)(…)`."
)


@async_unsafe(_IN_ASYNC_CODE)
def publish(
    subject: str,
    content: Value,
    fields: Mapping[str, Value] | None = None,
    *,
    retained: bool = True,
    qos: str = "guaranteed",
    using: str | None = None,
) -> Position | None:
    """Publish after the commit of the open transaction, or at once outside of one.

    The transaction is that of the database ``using``, without it that of whichever database has one. Returns the
    position when it was sent at once, else None; what is rolled back publishes nothing, and all messages of a
    transaction are sent together. ``retained`` False leaves the snapshot as it is; ``qos`` is ``"guaranteed"`` or
    ``"standard"`` (protocol.md 3.4).

    Raises TypeError or PublishRefused at once for what can never be sent; TransactionManagementError when it is not
    clear which commit to wait for; SynchronousOnlyOperation in asynchronous code; PublishFailed when no node could
    store it, and SidecarUnavailable when none answers: inside a transaction at its first message, so that it can still
    be rolled back. What fails after the commit is logged. REALTIME["ON_FAILURE"] changes the last two:
    docs/develop/django.md.
    """
    row = checked(subject, content, fields, retained, qos)
    connection = open_transaction(using)
    if connection is not None:
        after_commit(connection, row)
        return None
    try:
        return _sent(row)
    except (PublishFailed, SidecarUnavailable) as error:
        if conf.on_failure != "log":
            raise
        failures.note([(row, error)], 1, "outside of a transaction")
        return None


def publish_now(
    subject: str, content: Value, fields: Mapping[str, Value] | None = None, *, retained: bool = True, qos: str
) -> Position:
    """Publish now, whatever transaction is open, raise every failure whatever the settings say: for an operator."""
    return _sent(checked(subject, content, fields, retained, qos))


def _sent(row: Row) -> Position:
    [outcome] = backend().send([row])
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome
