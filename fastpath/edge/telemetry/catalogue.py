"""Every figure of the sidecar: what it counts, how those of several workers make one, how Prometheus calls it.

docs/operate/figures.md says the same at length, and when to worry.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.telemetry.counters import ENDS, FAILURES, REFUSALS
from ..clients.quotas import LIMITS

COUNTER, GAUGE = "counter", "gauge"

SUM, FIRST, MOST = "sum", "first", "most"
"""Of several workers: what each has adds up; the first one's counts for all; the highest."""


class Figure(NamedTuple):
    """``kind``: a counter only grows while its process lives, a gauge is what it is now. ``together``: how the figures
    of the workers make the node's. ``text``: one sentence. ``metric``: the name for Prometheus where it is not the
    figure's own, empty where Prometheus computes it by itself; ``label``: one label of it; ``scale``: to its unit."""

    kind: str
    together: str
    text: str
    metric: str | None = None
    label: tuple[str, str] | None = None
    scale: float = 1


def _labelled(prefix: str, label: str, names: tuple[str, ...], text: str, metric: str = "") -> dict[str, Figure]:
    return {
        f"{prefix}_{name}": Figure(COUNTER, SUM, text, metric or f"{prefix}_total", (label, name)) for name in names
    }


def _rate(text: str, together: str = SUM) -> Figure:
    return Figure(GAUGE, together, f"{text} in the last second, per second.", "")


def _count(text: str, together: str = SUM, metric: str | None = None) -> Figure:
    return Figure(COUNTER, together, text, metric)


def _gauge(text: str, together: str = SUM) -> Figure:
    return Figure(GAUGE, together, text)


def _time(text: str, name: str, together: str = FIRST) -> Figure:
    return Figure(GAUGE, together, text, f"{name}_seconds", scale=0.001)


CATALOGUE: dict[str, Figure] = {
    # Connections
    "connections": _gauge("Clients that are connected."),
    "connections_per_s": _rate("Clients that connected"),
    "disconnections_per_s": _rate("Clients that went"),
    "connects": _count("Clients that have connected."),
    "disconnects": Figure(COUNTER, SUM, "Clients that have gone.", ""),
    **_labelled("disconnects", "reason", ENDS, "Clients that have gone, by what ended the connection."),
    "connections_refused": _count("Connections on the client ports that were not let in."),
    "publishers": _gauge("Connections of publishers."),
    "workers": _gauge("Processes of this node that have told their figures.", FIRST),
    "silent_s": Figure(
        GAUGE, MOST, "How long a worker has told nothing, which hangs or is stopped; 0: all tell.", "silent_seconds"
    ),
    # Messages
    "messages_in_per_s": _rate("Messages accepted", FIRST),
    "messages_out_per_s": _rate("Messages written to clients, each client's"),
    "bytes_in_per_s": _rate("Bytes read from clients and publishers"),
    "bytes_out_per_s": _rate("Bytes written to clients and publishers"),
    "messages_in": _count("Messages accepted.", FIRST),
    "messages_out": _count("Messages written to clients, each client's."),
    "bytes_in": _count("Bytes read from clients and publishers."),
    "bytes_out": _count("Bytes written to clients and publishers."),
    "publications_refused": Figure(COUNTER, SUM, "Publications that were refused.", ""),
    **_labelled("publications_refused", "code", REFUSALS, "Publications that were refused, by code."),
    "publications_failed": Figure(COUNTER, SUM, "Publications that could not be stored.", ""),
    **_labelled("publications_failed", "code", FAILURES, "Publications that could not be stored, by code."),
    # Subjects, subscriptions, cache
    "subjects": _gauge("Subjects in use.", FIRST),
    "subscriptions": _gauge("Subscriptions that run."),
    "waiting_subscriptions": _gauge("Subscriptions that wait, for a right or for room."),
    "cached_messages": _gauge("Messages in the cache.", FIRST),
    "cached_bytes": _gauge("Bytes of the messages in the cache.", FIRST),
    "cache_hits": _count("Subscriptions that found stored messages that they asked for."),
    "cache_misses": _count("Subscriptions that did not find what they asked for."),
    **{
        f"evicted_by_{why}": Figure(COUNTER, FIRST, "Messages that have left the cache.", "evicted_total", ("by", why))
        for why in ("count", "age", "memory")
    },
    "recoveries": _count("Subscriptions that came back and got all that they had missed."),
    "resynchronisations": _count("Subscriptions that came back and could not get all that they had missed."),
    # Slow clients
    "slow_clients": _gauge("Clients that do not take what is written at this moment."),
    "queued_bytes": _gauge("Bytes that wait for slow clients."),
    "slow_conflated": _count("How often a client that lags fell back to conflation."),
    "slow_closed": _count("Clients closed because too much waited for them."),
    "conflated_away": _count("Messages that conflation merged into a later one of the same subject."),
    # Time
    "latency_p50_ms": _time("What half of the deliveries of the last second took at most.", "latency_p50", MOST),
    "latency_p99_ms": _time("What 99 % of the deliveries of the last second took at most.", "latency_p99", MOST),
    "loop_lag_ms": _time("How late the loop came to what was due, at most in the last second.", "loop_lag", MOST),
    "uptime_s": Figure(GAUGE, FIRST, "Since the start of this process.", "uptime_seconds"),
    # Machine
    "cpu_percent": Figure(GAUGE, SUM, "Processor time of the last second, in percent of a core.", ""),
    "cpu_seconds": _count("Processor time."),
    "cpu_waited_percent": Figure(
        GAUGE, MOST, "For how much of the last second the loop could have run and had no processor, in percent.", ""
    ),
    "cpu_waited_seconds": _count("Time for which loops could have run and had no processor."),
    "memory_bytes": _gauge("Resident memory, pages that workers share counted once for each."),
    "files": _gauge("Open files and sockets."),
    "machine_cpu_percent": Figure(
        GAUGE, FIRST, "How busy the machine's processors are.", "machine_cpu_ratio", scale=0.01
    ),
    "machine_memory_bytes": _gauge("Memory of the machine, or of the container.", FIRST),
    "machine_memory_available_bytes": _gauge("Memory that programs can still get.", FIRST),
    # Bounds
    "connections_max": _gauge("Clients that may be connected."),
    "subjects_max": _gauge("Subjects that may be in use.", FIRST),
    "cached_bytes_max": _gauge("Bytes that the cache of a worker may hold.", FIRST),
    "memory_bytes_max": _gauge("Memory that may be used.", FIRST),
    "files_max": _gauge("Files and sockets that may be open."),
    **_labelled("limited", "limit", LIMITS, "How often a limit was met."),
    # Parts that are not always there
    "audit_dropped": _count("Events that the audit could not write."),
    "log_dropped": _count("Lines of the log that could not be written."),
    "journal_bytes": _gauge("Bytes of the journal on the disk.", FIRST),
    "journal_disk_bytes": _gauge("Bytes that the journal's disk holds.", FIRST),
    "journal_disk_free_bytes": _gauge("Bytes that are left on the journal's disk.", FIRST),
    "journal_segments": _gauge("Files of the journal.", FIRST),
    "journal_sync_ms": _time("How long the last sync of the journal took.", "journal_sync"),
    "journal_failed_writes": _count("Writes and syncs of the journal that failed.", FIRST),
    "journal_damaged": _count("Damaged places that were found in the journal.", FIRST),
    "rights_followed": _gauge("1 while changes of rights in Django are followed, as its agent says.", FIRST),
    "triggers_missing": _gauge("Triggers of Django's database that are missing, as its agent says.", FIRST),
    "staged_bytes": _gauge("Bytes of rows that are staged and not committed.", FIRST),
    "staged_rows": _gauge("Rows that are staged and not committed.", FIRST),
    "commits_running": _gauge("Batches that are being released, or wait for that.", FIRST),
    "transactions_committed": _count("Batches that were committed.", FIRST),
    "transactions_repeated": _count("Commits of batches that were committed before.", FIRST),
    "transactions_failed": _count("Commits that were answered with an error.", FIRST),
    "transaction_rows": _count("Rows of batches that were committed.", FIRST),
    "redis_connected": _gauge("1 while Redis is read and written.", FIRST),
    "redis_tail_lag_ms": _time("How old the newest message was when it was read from Redis.", "redis_tail_lag"),
    "redis_batches": _count("Batches stored in Redis.", FIRST),
    "redis_retries": _count("Batches sent to Redis again.", FIRST),
    "redis_ack_pause_ms": _time("The longest time without acknowledgements of Redis so far.", "redis_ack_pause"),
    "redis_groups_mended": _count("How often a part of the log in Redis was read anew.", FIRST),
    "hook_runners": _gauge("Connections that answer for the hook.", FIRST),
    "hook_open": _gauge("Questions to the hook that are open.", FIRST),
    "hook_asked": _count("Questions asked of the hook.", FIRST),
    "hook_late": _count("Questions that the hook did not answer in time.", FIRST),
    "hook_untold": _count("Ends of connections that the hook was not told of.", FIRST),
    "roster_members": _gauge("Who is known to be there, by user and subject.", FIRST),
    "roster_keys": _gauge("Users and subjects of which it is known who is there.", FIRST),
    "roster_left_out": _count("Who was left out of what is known, for want of room.", FIRST),
}

UNKNOWN = Figure(GAUGE, FIRST, "See docs/operate/figures.md.")
"""What is not in the catalogue, of a part that was added since."""
