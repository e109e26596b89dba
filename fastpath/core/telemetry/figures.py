"""Every figure of the sidecar: what it counts, how those of several workers and nodes make one, whether it is sampled.

Whatever is told of figures follows from this table: the node's and the cluster's sums, Prometheus' names, the columns
of a sample, the reference in docs/operate/figures.md, which says at length when to worry, too.
"""

from __future__ import annotations

from typing import NamedTuple

from .counters import ENDS, FAILURES, LIMITS, REFUSALS

COUNTER, GAUGE = "counter", "gauge"

SUM, FIRST, MOST, LEAST = "sum", "first", "most", "least"
"""Rules for several workers: what each has adds up; the first worker's counts for all; the highest; the lowest."""

SHARED = "shared"
"""Rule for several nodes: the highest of those that share an engine, which all see the same; of others the sum."""


class Figure(NamedTuple):
    """``kind``: a counter only grows while its process lives, a gauge is what it is now. ``across_workers``: how the
    figures of the workers make the node's (SUM, FIRST, MOST). ``text``: one sentence. ``across_nodes``: how those of
    the nodes make the cluster's (SUM, MOST, LEAST, SHARED). ``sampled``: its column in the samples, which for a counter
    has the increments; empty where it is not sampled. ``metric``: the name for Prometheus where it is not the figure's
    own, empty where Prometheus computes it by itself; ``label``: one label of it; ``scale``: to its unit."""

    kind: str
    across_workers: str
    text: str
    across_nodes: str = SUM
    sampled: str = ""
    metric: str | None = None
    label: tuple[str, str] | None = None
    scale: float = 1


def _labelled(prefix: str, label: str, names: tuple[str, ...], text: str) -> dict[str, Figure]:
    return {
        f"{prefix}_{name}": Figure(COUNTER, SUM, text, metric=f"{prefix}_total", label=(label, name)) for name in names
    }


def _rate(text: str, across_workers: str = SUM, across_nodes: str = SUM) -> Figure:
    return Figure(GAUGE, across_workers, f"{text} in the last second, per second.", across_nodes, metric="")


def _count(
    text: str, across_workers: str = SUM, across_nodes: str = SUM, *, sampled: str = "", metric: str | None = None
) -> Figure:
    return Figure(COUNTER, across_workers, text, across_nodes, sampled, metric)


def _gauge(text: str, across_workers: str = SUM, across_nodes: str = SUM, *, sampled: str = "") -> Figure:
    return Figure(GAUGE, across_workers, text, across_nodes, sampled)


def _time(text: str, name: str, across_workers: str = FIRST, *, sampled: str = "") -> Figure:
    return Figure(GAUGE, across_workers, text, MOST, sampled, f"{name}_seconds", scale=0.001)


def _evicted(why: str, *, sampled: str = "") -> Figure:
    text = "Messages that have left the cache."
    return Figure(COUNTER, FIRST, text, SUM, sampled, "evicted_total", ("by", why))


FIGURES: dict[str, Figure] = {
    # Connections
    "connections": _gauge("Clients that are connected.", sampled="connections"),
    "connections_per_s": _rate("Clients that connected"),
    "disconnections_per_s": _rate("Clients that went"),
    "connects": _count("Clients that have connected.", sampled="connections_per_s"),
    "disconnects": _count("Clients that have gone.", sampled="disconnections_per_s", metric=""),
    **_labelled("disconnects", "reason", ENDS, "Clients that have gone, by what ended the connection."),
    "connections_refused": _count("Connections on the client ports that were not let in."),
    "http_connections": _gauge("Connections of client ports that speak plain HTTP."),
    "http_requests": _count("Requests over plain HTTP on the client ports."),
    "requests": _count("Requests of clients, callers and Django that were taken."),
    "requests_failed": _count("Requests that were refused, or ended with an error."),
    "requests_open": _gauge("Requests that wait for replies."),
    "requests_taken": _gauge("Requests that responders have been asked and have not answered to the end."),
    "replies": _count("Replies that were handed on to whoever asked."),
    "replies_dropped": _count("Replies that nobody waited for any more, or that were refused."),
    "responders": _gauge("Connections that answer requests."),
    "requests_to_nodes": _count("Requests that were handed to another node.", FIRST),
    "requests_from_nodes": _count("Requests that came from another node.", FIRST),
    "request_messages_lost": _count("Messages about requests that did not reach the node they were for.", FIRST),
    "request_nodes": _gauge("Other nodes whose responders are known.", FIRST, SHARED),
    "request_patterns_left_out": _count("Patterns of other nodes' responders left out, for want of room.", FIRST),
    "channel_messages": _count("Messages of Django Channels that were taken, for each channel of a group.", FIRST),
    "channel_messages_full": _count("Messages of Django Channels that found a channel full.", FIRST),
    "channel_messages_expired": _count("Messages of Django Channels that nobody received in time.", FIRST),
    "channel_messages_waiting": _gauge("Messages of Django Channels that wait for a receiver.", FIRST),
    "channel_bytes_waiting": _gauge("Their bytes.", FIRST),
    "channel_receivers": _gauge("Receivers of Django Channels that wait for a message.", FIRST),
    "channel_memberships": _gauge("Channels in the groups of Django Channels.", FIRST),
    "channel_messages_to_nodes": _count("Messages of Django Channels for a channel that another node keeps.", FIRST),
    "channel_messages_lost": _count("Messages of Django Channels that may not have come from node to node.", FIRST),
    "channel_messages_held": _gauge("Messages to groups that wait until the other nodes can be reached.", FIRST),
    "channel_nodes": _gauge("Other nodes whose channels are known.", FIRST, SHARED),
    "polling_clients": _gauge("Clients that ask for what has come by long polling."),
    "polls_held": _gauge("Of their polls those that are held, as there is nothing to tell."),
    "workers": _gauge("Processes of this node that have told their figures.", FIRST),
    "silent_s": Figure(
        GAUGE,
        MOST,
        "How long a worker has told nothing, which hangs or is stopped; 0: all tell.",
        MOST,
        metric="silent_seconds",
    ),
    # Messages
    "messages_in_per_s": _rate("Messages accepted", FIRST, SHARED),
    "messages_out_per_s": _rate("Messages written to clients, each client's"),
    "bytes_in_per_s": _rate("Bytes read from clients and publishers"),
    "bytes_out_per_s": _rate("Bytes written to clients and publishers"),
    "messages_in": _count("Messages accepted.", FIRST, SHARED, sampled="messages_in_per_s"),
    "messages_out": _count("Messages written to clients, each client's.", sampled="messages_out_per_s"),
    "bytes_in": _count("Bytes read from clients and publishers.", sampled="bytes_in_per_s"),
    "bytes_out": _count("Bytes written to clients and publishers.", sampled="bytes_out_per_s"),
    # What there is
    "subjects": _gauge("Subjects in use.", FIRST, SHARED, sampled="subjects"),
    "subscriptions": _gauge("Subscriptions that run.", sampled="subscriptions"),
    "waiting_subscriptions": _gauge("Subscriptions that wait, for a right or for room."),
    "publishers": _gauge("Connections of publishers.", sampled="publishers"),
    "cached_messages": _gauge("Messages in the cache.", FIRST),
    "cached_bytes": _gauge("Bytes of the messages in the cache.", FIRST, sampled="cached_bytes"),
    # Machine
    "cpu_percent": Figure(
        GAUGE, SUM, "Processor time of the last second, in percent of a core.", sampled="cpu_percent", metric=""
    ),
    "cpu_seconds": _count("Processor time."),
    "cpu_waited_percent": Figure(
        GAUGE,
        MOST,
        "For how much of the last second the loop could have run and had no processor, in percent.",
        MOST,
        metric="",
    ),
    "cpu_waited_seconds": _count("Time for which loops could have run and had no processor."),
    "memory_bytes": _gauge("Resident memory, pages that workers share counted once for each.", sampled="memory_bytes"),
    "files": _gauge("Open files and sockets."),
    "machine_cpu_percent": Figure(
        GAUGE, FIRST, "How busy the machine's processors are.", MOST, metric="machine_cpu_ratio", scale=0.01
    ),
    "machine_memory_bytes": _gauge("Memory of the machine, or of the container.", FIRST, MOST),
    "machine_memory_available_bytes": _gauge("Memory that programs can still get.", FIRST, LEAST),
    # Time
    "loop_lag_ms": _time(
        "How late the loop came to what was due, at most in the last second.", "loop_lag", MOST, sampled="loop_lag_ms"
    ),
    "latency_p50_ms": _time(
        "What half of the deliveries of the last second took at most.", "latency_p50", MOST, sampled="latency_p50_ms"
    ),
    "latency_p99_ms": _time(
        "What 99 % of the deliveries of the last second took at most.", "latency_p99", MOST, sampled="latency_p99_ms"
    ),
    "uptime_s": Figure(GAUGE, FIRST, "Since the start of this process.", MOST, metric="uptime_seconds"),
    # Recoveries
    "recoveries": _count("Subscriptions that came back and got all that they had missed.", sampled="recoveries_per_s"),
    "resynchronisations": _count(
        "Subscriptions that came back and could not get all that they had missed.", sampled="resynchronisations_per_s"
    ),
    # Publications that were not taken
    "publications_refused": _count("Publications that were refused.", sampled="publications_refused_per_s", metric=""),
    **_labelled("publications_refused", "code", REFUSALS, "Publications that were refused, by code."),
    "publications_failed": _count(
        "Publications that could not be stored.", sampled="publications_failed_per_s", metric=""
    ),
    **_labelled("publications_failed", "code", FAILURES, "Publications that could not be stored, by code."),
    # Slow clients
    "slow_clients": _gauge("Clients that do not take what is written at this moment.", sampled="slow_clients"),
    "queued_bytes": _gauge("Bytes that wait for slow clients.", sampled="queued_bytes"),
    "slow_conflated": _count("How often a client that lags fell back to conflation."),
    "slow_closed": _count("Clients closed because too much waited for them.", sampled="slow_closed_per_s"),
    "conflated_away": _count(
        "Messages that conflation merged into a later one of the same subject.", sampled="conflated_away_per_s"
    ),
    # What the cache had, and let go of
    "cache_hits": _count("Subscriptions that found stored messages that they asked for.", sampled="cache_hits_per_s"),
    "cache_misses": _count("Subscriptions that did not find what they asked for.", sampled="cache_misses_per_s"),
    "evicted_by_count": _evicted("count"),
    "evicted_by_age": _evicted("age"),
    "evicted_by_memory": _evicted("memory", sampled="evicted_by_memory_per_s"),
    # Bounds
    "connections_max": _gauge("Clients that may be connected."),
    "subjects_max": _gauge("Subjects that may be in use.", FIRST, SHARED),
    "cached_bytes_max": _gauge("Bytes that the cache of a worker may hold.", FIRST),
    "memory_bytes_max": _gauge("Memory that may be used.", FIRST),
    "files_max": _gauge("Files and sockets that may be open."),
    **_labelled("limited", "limit", LIMITS, "How often a limit was met."),
    # Parts that are not always there
    "audit_dropped": _count("Events that the audit could not write.", sampled="audit_dropped_per_s"),
    "log_dropped": _count("Lines of the log that could not be written."),
    "spans_exported": _count("Spans that a collector has taken."),
    "spans_dropped": _count("Spans that were left out, or that no collector took."),
    "journal_bytes": _gauge("Bytes of the journal on the disk.", FIRST),
    "journal_disk_bytes": _gauge("Bytes that the journal's disk holds.", FIRST, MOST),
    "journal_disk_free_bytes": _gauge("Bytes that are left on the journal's disk.", FIRST, LEAST),
    "journal_segments": _gauge("Files of the journal.", FIRST),
    "journal_sync_ms": _time("How long the last sync of the journal took.", "journal_sync"),
    "journal_failed_writes": _count(
        "Writes and syncs of the journal that failed.", FIRST, sampled="journal_failed_writes_per_s"
    ),
    "journal_damaged": _count("Damaged places that were found in the journal.", FIRST),
    "rights_followed": _gauge("1 while changes of rights in Django are followed, as its agent says.", FIRST, MOST),
    "rights_left_out": _gauge("Rules, users, sessions and options that could not be read.", FIRST, MOST),
    "rights_left_out_denying": _gauge("Those of them that may have taken a right away.", FIRST, MOST),
    "triggers_missing": _gauge("Triggers of Django's database that are missing, as its agent says.", FIRST, MOST),
    "staged_bytes": _gauge("Bytes of rows that are staged and not committed.", FIRST),
    "staged_rows": _gauge("Rows that are staged and not committed.", FIRST),
    "commits_running": _gauge("Batches that are being released, or wait for that.", FIRST),
    "transactions_committed": _count("Batches that were committed.", FIRST),
    "transactions_repeated": _count("Commits of batches that were committed before.", FIRST),
    "transactions_failed": _count("Commits that were answered with an error.", FIRST),
    "transaction_rows": _count("Rows of batches that were committed.", FIRST),
    "redis_connected": _gauge("1 while Redis is read and written.", FIRST, LEAST),
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
    "passwords_open": _gauge("MQTT clients that wait for their password to be checked.", FIRST),
    "passwords_asked": _count("Passwords of MQTT clients that Django was asked about.", FIRST),
    "passwords_wrong": _count("Those of them that were wrong.", FIRST),
    "passwords_limited": _count("Passwords that were not looked at, after too many that were wrong.", FIRST),
    "mqtt_sessions_discarded": _count(
        "Sessions of MQTT clients that ended for messages that could not be had any more."
    ),
    "mqtt_sessions_kept": _gauge("Sessions of MQTT clients that outlast a restart.", FIRST),
    "mqtt_sessions_unsaved": _gauge("Sessions of MQTT clients with changes that are to be written.", FIRST),
    "mqtt_sessions_from_nodes": _count("Sessions of MQTT clients that came from other nodes.", FIRST),
    "mqtt_sessions_to_nodes": _count("Sessions of MQTT clients that went to other nodes.", FIRST),
    "mqtt_sessions_bytes": _gauge("Bytes of the files of MQTT clients' sessions.", FIRST),
    "roster_members": _gauge("Who is known to be there, by user and subject.", FIRST, SHARED),
    "roster_keys": _gauge("Users and subjects of which it is known who is there.", FIRST, SHARED),
    "roster_left_out": _count("Who was left out of what is known, for want of room.", FIRST, SHARED),
}

UNKNOWN = Figure(GAUGE, FIRST, "See docs/operate/figures.md.")
"""Figure for what is not in the table, of a part that was added since."""

SAMPLED = {figure.sampled: figure for figure in FIGURES.values() if figure.sampled}
"""The columns of the samples, by their names."""


def of_nodes(rule: str, before: float, value: float, *, shared: bool) -> float:
    """Return a figure of the nodes so far and of one more, by its rule (``across_nodes``); ``shared``: this node shares
    its engine with the others."""
    if rule == LEAST:
        return min(before, value)
    return max(before, value) if rule == MOST or (rule == SHARED and shared) else before + value
