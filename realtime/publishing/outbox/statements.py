"""The statements of the outbox that the ORM cannot say: a batch in one question, on PostgreSQL each step in one."""

from __future__ import annotations

from realtime.models import OutboxMessage, OutboxState

_MESSAGES = OutboxMessage._meta.db_table
_STATE = OutboxState._meta.db_table

NEXT = f"""
SELECT message.id, message.subject, message.size, message.message
FROM (
    SELECT id, size, SUM(size) OVER places AS total, ROW_NUMBER() OVER places AS place
    FROM (
        SELECT id, position, size FROM {_MESSAGES} WHERE code = '' ORDER BY position, id LIMIT %s
    ) AS first
    WINDOW places AS (ORDER BY position, id)
) AS counted
JOIN {_MESSAGES} AS message ON message.id = counted.id
WHERE counted.total <= %s OR counted.place = 1
ORDER BY counted.place
"""  # noqa: S608 - the names of our own tables
"""Statement for at most so many rows, of so many bytes, and one at least: id, subject, size, message."""

TAKE = f"""
WITH batch AS (
    SELECT *, ROW_NUMBER() OVER () AS place FROM ({NEXT}) AS ordered
), mine AS (
    UPDATE {_STATE} SET
        beat = beat + 1,
        number = number + (SELECT COUNT(*) FROM batch),
        pending = (SELECT jsonb_agg(jsonb_build_array(id, %s + place) ORDER BY place) FROM batch)
    WHERE id = %s AND holder = %s AND EXISTS (SELECT FROM batch)
    RETURNING id
)
SELECT id, subject, size, message, EXISTS (SELECT FROM mine) FROM batch ORDER BY place
"""  # noqa: S608
"""NEXT, and numbers for these rows behind the given one, in the state if it is still the holder's: the last column."""

SETTLE = f"""
WITH mine AS (
    UPDATE {_STATE} SET beat = beat + 1, sent = sent + %s, pending = %s::jsonb WHERE id = %s AND holder = %s
    RETURNING id
), gone AS (
    DELETE FROM {_MESSAGES} WHERE id = ANY(%s::bigint[]) AND EXISTS (SELECT FROM mine)
)
SELECT EXISTS (SELECT FROM mine), set_config('synchronous_commit', 'off', true)
"""  # noqa: S608
"""Deletes what was stored, and says what is pending, if the state is still the holder's, which is the answer.

Nobody waits for the disk: where it is lost with the machine the rows come again under the same numbers.
"""
