"""Every setting of the sidecar: unit, default, reason, what it may be; an unknown FASTPATH_* is an error."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from .core.auth.allowed_addresses import Networks
from .core.auth.allowed_origins import Origins
from .core.auth.hook_questions import EVENTS
from .core.auth.keys import check_address, is_address
from .core.auth.tokens import ClaimMap, check_permission
from .core.matching.pattern_set import PatternSet
from .core.protocol.errors import InvalidSubject
from .core.protocol.limits import Limits
from .core.websocket.handshake import HEAD_BYTES_MAX, HEAD_BYTES_MOST
from .listen_address import Listener, SettingsError
from .logs.formats import FORMATS, parse_levels

PREFIX = "FASTPATH_"
MODES = ("none", "basic", "jwt", "rules", "custom")
JOURNALS = ("off", "interval", "batch")
AUDIT_KINDS = ("access", "message", "cache", "statistics")
AUDIT_BYTES_LEAST = 4096
LOG_BYTES_LEAST = 4096
HEAD_BYTES_LEAST = 1024
LEEWAY_SECONDS_MOST = 300
_INT32_MAX = (1 << 31) - 1
MESSAGE_BYTES_MOST = 15 << 20
"""Bytes of a message at most: a control frame, 16 MiB, less what is said around a message."""

SNAPSHOT_BYTES_MOST = 32 << 20
"""Bytes of a snapshot at most: a frame as clients take it, 256 MiB, holds that with each character escaped sixfold."""

_MAY_BE_OFF = ("hang_seconds", "idle_seconds", "memory_bytes_max", "token_leeway_seconds")
"""Limits that 0 switches off."""

_OF_JWT = tuple(
    f"token_{name}" for name in ("audience", "issuer", "user_claim", "groups_claim", "subscribe", "publish")
)
"""Settings about an outside issuer's tokens."""

SECRETS = ("token_secret", "publish_token", "metrics_password")
"""Settings that are never printed."""

_KINDS: dict[type, str] = {int: "a whole number", str: "a text", bool: "true or false"}

_FAULTS = ("faults", "faults_do")
"""Names that say which failpoints are on: no settings."""


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class Settings:
    """The sidecar's settings, validated once."""

    listen: str = _setting(
        "clients://127.0.0.1:8800,publishers://127.0.0.1:8801",
        "addresses, comma-separated: PURPOSES[+tls]://HOST:PORT[?cert=…&key=…&tls_min=…&ciphers=…&ciphers_exclude=…"
        "&curve=…&ca=…&proxy=v1|v2] or PURPOSES+unix:///PATH[?mode=660]; "
        "purposes clients and publishers joined by +; * is all addresses; port 0 picks one; "
        "for clients also deflate=BYTES (messages from that size on are compressed for who offers it), "
        "batch_ms=MS, batch_bytes=BYTES or both (collect messages so long, or until so many bytes wait); "
        "control+tls://HOST:PORT?cert=…&key=…&ca=… is the control socket for a Django on another host; "
        "metrics://HOST:PORT answers /healthz, /readyz and /metrics",
    )
    control: str = _setting("", "path of the unix socket for Django; empty: none")
    workers: int = _setting(
        0, "processes behind the same ports; 0: one for each core that this process may use; 1: no others"
    )
    mode: str = _setting(
        "rules",
        "who decides about rights: none (everybody may), basic (everybody reads, publish_token publishes), "
        "jwt (an outside issuer's tokens), rules (Django's rules), custom (a hook in Django)",
    )
    publish_token: str = _setting("", "mode basic: the token that publishes, any text; empty: nobody does over a port")
    token_secret: str = _setting(
        "", "the HS256 secret that tokens are signed with; modes jwt and rules need it or token_keys, and take both"
    )
    token_keys: str = _setting(
        "",
        "path or https:// address of a JWK set (RFC 7517) with the keys that tokens are signed with, by kid: HS256, "
        "RS256, ES256 and EdDSA; a file is read again when it changes, an address as token_keys_seconds says",
    )
    token_keys_seconds: int = _setting(
        300,
        "how often the address of token_keys is asked; also when a token names a key that is not known, at most every "
        "10 s, and with growing pauses, up to a minute, while it does not answer",
    )
    token_audience: str = _setting(
        "", "mode jwt: the audience that tokens have to name; empty: fastpath, and tokens that name none are taken too"
    )
    token_issuer: str = _setting("", "mode jwt: the issuer that tokens have to name; empty: any")
    token_user_claim: str = _setting(
        "sub", "mode jwt: the claim that is the user's name, such as preferred_username; a.b is the claim b inside of a"
    )
    token_groups_claim: str = _setting(
        "groups", "mode jwt: the claim with the user's groups, such as realm_access.roles, for {group} in patterns"
    )
    token_subscribe: str = _setting(
        "",
        "mode jwt: patterns that everybody with a token may read, comma-separated, with {username}, {group} and "
        "{CLAIM}; with it or token_publish the claim permissions is not looked at",
    )
    token_publish: str = _setting("", "mode jwt: the same for publishing")
    token_leeway_seconds: int = _setting(
        10,
        "modes jwt and rules: how long before its nbf a token is taken already, as the issuer's clock may be ahead; at "
        "most 300, 0: not at all. It ends at its exp in any case",
    )
    hooks: str = _setting(
        "",
        "about what Django's hook is asked besides, comma-separated: connect, subscribe, publish, token, disconnect; "
        "empty: about nothing, in mode custom about everything",
    )
    hook_seconds: int = _setting(
        5, "how long a client waits for an answer of the hook, or for its password to be checked"
    )
    delivery: str = _setting(
        "guaranteed",
        "guaranteed: messages are cached and a client that comes back gets "
        "what it missed; standard: it gets the snapshot",
    )
    snapshots: bool = _setting(True, "keep a snapshot per subject")
    snapshot_expiry: int = _setting(0, "seconds after which a snapshot that no message has renewed is gone; 0: never")
    engine: str = _setting(
        "memory",
        "who numbers and keeps messages: memory (one node, see journal), or Redis, for any number of nodes: "
        "redis://[USER:PASSWORD@]HOST:PORT, or with Sentinels "
        "redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT,HOST:PORT/NAME[?sentinel_user=&sentinel_password=&ca=]; "
        "rediss for TLS",
    )
    redis_prefix: str = _setting("fastpath", "what all keys in Redis begin with")
    redis_log_messages: int = _setting(
        65536,
        "messages that Redis keeps at least in each of its 16 logs: what a node that joins or was away can read",
    )
    cache_messages: int = _setting(1000, "messages cached per subject (0: none)")
    cache_seconds: int = _setting(180, "how long a message stays in the cache")
    cache_bytes: int = _setting(256 << 20, "bytes of all cached messages together; the oldest go first")
    journal: str = _setting(
        "off",
        "what survives a restart: off (nothing), interval (all that was published; the disk is synced each second), "
        "batch (the same, and nothing is acknowledged before it is synced)",
    )
    data: str = _setting("", "folder of the journal, for this sidecar alone; made if need be")
    staged_bytes: int = _setting(
        512 << 20, "rows that publishers have staged and not committed; above it they are told to wait"
    )
    staged_seconds: int = _setting(3600, "how long staged rows wait for their commit, and for the next of them")
    message_bytes_max: int = _setting(1 << 20, "content and fields of one message")
    snapshot_bytes_max: int = _setting(
        8 << 20,
        "content and fields of one subject's whole snapshot, which gathers those of many messages; a publication that "
        "would make it larger is refused",
    )
    outbox_bytes_max: int = _setting(
        4 << 20,
        "what may wait for one client that does not read; above it the client is closed with 4001 and may resume; "
        "what it has asked for, such as a snapshot, comes beside it",
    )
    unsent_bytes_max: int = _setting(
        128 << 10,
        "what the kernel may hold unsent for one client (TCP_NOTSENT_LOWAT): "
        "a slow client's backlog belongs in the bounded outgoing queue",
    )
    patterns_max: int = _setting(100, "patterns that one connection is subscribed to; what they find counts below")
    subscriptions_max: int = _setting(10_000, "subscriptions on one connection")
    subjects_max: int = _setting(1_000_000, "subjects in use over all")
    connections_max: int = _setting(
        0, "connections of a worker's client ports; 0: as many files as the process may open, less 100 (half, if few)"
    )
    connections_per_user_max: int = _setting(
        0, "client connections of one user, over all workers; who is not signed in is not counted; 0: no bound"
    )
    connections_per_address_max: int = _setting(
        0, "client connections from one address, over all workers; 0: no bound, as many people may be behind one"
    )
    commands_per_second_max: int = _setting(
        0,
        "commands of one client, with a second's worth at once; beyond that it is not read from for a while, so that "
        "nothing is lost; 0: no bound",
    )
    publications_per_second_max: int = _setting(
        0, "publications of one client or publisher, in the same way; a batch counts its messages; 0: no bound"
    )
    memory_bytes_max: int = _setting(
        0,
        "resident memory of all workers together; above it new connections, subscriptions and subjects are refused, "
        "and what is there goes on, until it is 5 % below; 0: no bound",
    )
    head_bytes_max: int = _setting(
        HEAD_BYTES_MAX,
        "the head of a request: its address with a token in it, and all headers, the site's cookies among them; at "
        "most 65536",
    )
    handshake_seconds: int = _setting(10, "until the first command of a client, or the hello of a publisher")
    ping_seconds: int = _setting(25, "a client is pinged this often, and closed after two without any sign of life")
    idle_seconds: int = _setting(
        0, "until a client that has no subscription and sends no command is closed with 4507; 0: never"
    )
    mqtt_passwords: bool = _setting(
        True,
        "mode rules: clients of MQTT may come with a user's name and password, which Django checks, and not with a "
        "token alone",
    )
    mqtt_keep_alive_seconds: int = _setting(
        60,
        "the longest keep alive: a client of MQTT 5 that wants a longer one, or none, is told this one instead; 0: any",
    )
    mqtt_session_seconds: int = _setting(
        604_800, "how long the session of an MQTT client outlasts its connection at most; 0: not at all"
    )
    mqtt_sessions_max: int = _setting(
        100_000, "sessions whose MQTT clients are away; above it those that were left first end"
    )
    slow_close_seconds: int = _setting(90, "how long a slow client's socket is kept so that it can read its close code")
    servers: str = _setting(
        "",
        "where clients go when this node is drained: addresses of the other nodes' client ports, comma-separated, each "
        "with its weight from 0 to 100 (100): wss://b.example.com/ws 100, wss://c.example.com/ws 50; empty: nowhere",
    )
    drain_per_second: int = _setting(1000, "clients that are sent elsewhere each second, over all workers")
    drain_seconds: int = _setting(
        10, "how long a node that stops sends its clients elsewhere at that rate; who is left then goes at once"
    )
    trusted_proxies: str = _setting(
        "127.0.0.1,::1",
        "addresses and ranges (10.1.0.0/16) whose X-Forwarded-For and proxy protocol are believed, comma-separated; "
        "unix: peers of a unix socket",
    )
    publish_from: str = _setting(
        "",
        "addresses and ranges (10.1.0.0/16) that may publish, on any port, comma-separated; unix: peers of a unix "
        "socket; empty: all. Django, on the control socket, always may",
    )
    origins: str = _setting(
        "",
        "pages that may open a WebSocket, comma-separated: https://app.example.com, or *.example.com for all below; an "
        "app or extension by its own scheme: capacitor://localhost; empty: all. A client that sends no Origin is no "
        "browser, and is not asked",
    )
    user: str = _setting(
        "",
        "whom the sidecar becomes when root starts it, before it opens anything; it keeps the right to open ports "
        "below 1024, if one is asked for, and nothing else of root's; empty: it stays what it is",
    )
    audit: str = _setting(
        "",
        "what is written down, comma-separated: access (who connects, subscribes, is refused), message (each "
        "publication), cache, statistics (the figures each minute); empty: nothing",
    )
    audit_content: bool = _setting(
        False, "write the content and fields of publications down as well, of up to 16 KiB each"
    )
    audit_folder: str = _setting("", "folder of the audit's files, for this sidecar alone; made if need be")
    audit_bytes: int = _setting(100_000_000, "an audit file is ended at this size, and at midnight (UTC)")
    audit_files: int = _setting(30, "audit files kept of each worker; older ones are deleted")
    echo: bool = _setting(False, "answer /echo on the client ports with what was sent, for conformance tests")
    presence: str = _setting(
        "",
        "patterns of the subjects whose subscribers are known by name, with joins and leaves, comma-separated: "
        "/chat/**; also who is online is known then; the same on all nodes; empty: nothing",
    )
    statistics: bool = _setting(
        True,
        "figures each second, on /__sys__/stats and for Django; off: they are given to who asks, and cost little",
    )
    metrics_password: str = _setting(
        "",
        "what is to be given for /metrics on a listener of metrics: as the password of any user (HTTP Basic), or as "
        "a bearer token; /healthz and /readyz then say no reasons without it; empty: nothing",
    )
    tracing: bool = _setting(
        False,
        "spans of traced publications go to a collector by OTLP (tracing.md); OpenTelemetry's own variables, as "
        "OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_SAMPLER, say where and how many; needs the extra otel",
    )
    otlp_metrics: bool = _setting(
        False,
        "the figures of the node go to a collector by OTLP, by OpenTelemetry's own variables as well, each "
        "OTEL_METRIC_EXPORT_INTERVAL ms (60000); needs the extra otel",
    )
    hang_seconds: int = _setting(
        10,
        "with several workers: one that serves and whose loop has stood still for so long is asked where, killed and "
        "replaced; 0: never, for who stops a worker in a debugger",
    )
    log_level: str = _setting(
        "info",
        "debug, info, warning or error, and levels of parts after it: info,clients=warning,control=debug (logs.md)",
    )
    log_format: str = _setting("text", "text, or json: an object a line, with particulars by name")
    log_file: str = _setting("", "file of the log, which all workers write; empty: the standard error")
    log_bytes: int = _setting(
        50_000_000, "the log's file is renamed at this size, and a new one begun; 0: never, another program does that"
    )
    log_files: int = _setting(10, "renamed files of the log that are kept: FILE.1 is the newest")

    def __post_init__(self) -> None:
        _check(self)

    @property
    def listeners(self) -> list[Listener]:
        """The addresses to listen on."""
        return [Listener.parse(url) for url in self.listen.split(",") if url.strip()]

    @property
    def audit_kinds(self) -> set[str]:
        """Kinds of events that are written down."""
        return {kind for kind in self.audit.replace(" ", "").split(",") if kind}

    @property
    def drain_servers(self) -> list[tuple[str, int]]:
        """Address and weight of each of the other nodes; raises SettingsError."""
        found = []
        for text in self.servers.split(","):
            url, *weights = text.split() or [""]
            if not url:
                continue
            weight = weights[0] if weights else "100"
            if not url.startswith(("ws://", "wss://")) or len(weights) > 1 or not weight.isdecimal():
                raise SettingsError(f"{PREFIX}SERVERS: {text.strip()!r} is not ws://HOST:PORT/ws WEIGHT")
            if int(weight) > 100:
                raise SettingsError(f"{PREFIX}SERVERS: {text.strip()!r}: a weight is 0 to 100")
            found.append((url, int(weight)))
        return found

    @property
    def hook_events(self) -> frozenset[str]:
        """Events about which the hook is asked; raises SettingsError."""
        given = [name.strip() for name in self.hooks.split(",") if name.strip()]
        if unknown := sorted(set(given).difference(EVENTS)):
            raise SettingsError(f"{PREFIX}HOOKS: {unknown[0]!r} is none of {', '.join(EVENTS)}")
        return frozenset(EVENTS if self.mode == "custom" and not given else given)

    @property
    def claim_map(self) -> ClaimMap:
        """Meaning of the claims of an outside issuer's tokens; raises SettingsError."""
        patterns: list[tuple[str, ...]] = []
        for name in ("token_subscribe", "token_publish"):
            given = tuple(text.strip() for text in getattr(self, name).split(",") if text.strip())
            for text in given:
                try:
                    check_permission(text)
                except InvalidSubject as error:
                    raise SettingsError(f"{PREFIX}{name.upper()}: {text!r}: {error.reason}") from None
            patterns.append(given)
        return ClaimMap(self.token_user_claim or "sub", self.token_groups_claim or "groups", *patterns)

    @property
    def limits(self) -> Limits:
        """The bounds that the core keeps."""
        return Limits(
            message_bytes_max=self.message_bytes_max,
            subscriptions_max=self.subscriptions_max,
            patterns_max=self.patterns_max,
            subjects_max=self.subjects_max,
            outbox_bytes_max=self.outbox_bytes_max,
            snapshot_bytes_max=self.snapshot_bytes_max,
            snapshot_ms=self.snapshot_expiry * 1000,
            cache_messages=self.cache_messages,
            cache_ms=self.cache_seconds * 1000,
            cache_bytes=self.cache_bytes,
        )


def load(environ: Mapping[str, str]) -> Settings:
    """Read settings from the TOML file that FASTPATH_CONFIG names, then from the environment; raise SettingsError."""
    given = {name[len(PREFIX) :].lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    for name in _FAULTS:
        given.pop(name, None)
    path = given.pop("config", "")
    values: dict[str, Any] = {}
    if path:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{PREFIX}CONFIG: {path}: {error}") from None
    types = get_type_hints(Settings)
    known = [one.name for one in fields(Settings)]
    for name in (*values, *given):
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {PREFIX}{close[0].upper()}?" if close else ""
            raise SettingsError(f"unknown setting {PREFIX}{name.upper()}{hint}")
    for name, value in values.items():
        if type(value) is not types[name]:
            raise SettingsError(f"{path}: {name} must be {_KINDS[types[name]]}")
    for name, text in given.items():
        values[name] = _convert(name, text, types[name])
    return replace(Settings(mode="none"), **({"mode": "rules"} | values))


def describe(settings: Settings) -> str:
    """Return every setting in force, with its reason, as a TOML file; secrets are not shown."""
    lines = []
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name in SECRETS and value:
            lines += [f"# {one.metadata['help']}", f"# {one.name} = (set)", ""]
            continue
        if one.name == "engine":
            value = without_login(value)
        # A text, number or truth value is written the same in TOML as in JSON.
        shown = json.dumps(value, ensure_ascii=False)
        lines += [f"# {one.metadata['help']}", f"{one.name} = {shown}", ""]
    return "\n".join(lines)


def _convert(name: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    try:
        if kind is bool:
            return {
                "1": True,
                "true": True,
                "on": True,
                "yes": True,
                "0": False,
                "false": False,
                "off": False,
                "no": False,
                "": False,
            }[text.lower()]
        return int(text)
    except (KeyError, ValueError):
        expected = "on or off" if kind is bool else "a whole number"
        raise SettingsError(f"{PREFIX}{name.upper()}: {text!r} is not {expected}") from None


# What values they may have, and what each wrong one is answered with


def _check(settings: Settings) -> None:
    """Raise SettingsError for the first value that makes no sense."""
    if settings.mode not in MODES:
        raise SettingsError(f"{PREFIX}MODE: {settings.mode!r} is none of {', '.join(MODES)}")
    if settings.delivery not in ("guaranteed", "standard"):
        raise SettingsError(f"{PREFIX}DELIVERY: {settings.delivery!r} is neither guaranteed nor standard")
    _check_tokens(settings)
    if not settings.redis_prefix or set(settings.redis_prefix) & set("{} \t\r\n"):
        raise SettingsError(f"{PREFIX}REDIS_PREFIX: {settings.redis_prefix!r} is empty or has a blank or a brace in it")
    if settings.redis_log_messages < 1000:
        raise SettingsError(f"{PREFIX}REDIS_LOG_MESSAGES: {settings.redis_log_messages} is less than 1000")
    if settings.journal not in JOURNALS:
        raise SettingsError(f"{PREFIX}JOURNAL: {settings.journal!r} is none of {', '.join(JOURNALS)}")
    if settings.journal != "off" and not settings.data:
        raise SettingsError(f"{PREFIX}JOURNAL: {settings.journal} needs a folder: {PREFIX}DATA=/var/lib/fastpath")
    _check_log(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        counts = one.name.endswith(("_seconds", "bytes_max")) and one.name not in _MAY_BE_OFF
        least = 1 if counts else 0
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise SettingsError(f"{PREFIX}{one.name.upper()}: {value} is less than {least}")
    if settings.unsent_bytes_max > _INT32_MAX:
        raise SettingsError(f"{PREFIX}UNSENT_BYTES_MAX: {settings.unsent_bytes_max} is more than {_INT32_MAX}")
    _check_sizes(settings)
    if not HEAD_BYTES_LEAST <= settings.head_bytes_max <= HEAD_BYTES_MOST:
        bounds = f"{HEAD_BYTES_LEAST} to {HEAD_BYTES_MOST}"
        raise SettingsError(f"{PREFIX}HEAD_BYTES_MAX: {settings.head_bytes_max} is not {bounds}")
    for listener in settings.listeners:
        if listener.batch_ms and listener.batch_bytes > settings.outbox_bytes_max // 2:
            raise SettingsError(
                f"{PREFIX}LISTEN: batch_bytes={listener.batch_bytes} is more than half of "
                f"{PREFIX}OUTBOX_BYTES_MAX: a batch must fit into a client's queue"
            )
    if settings.drain_per_second < 1:
        raise SettingsError(f"{PREFIX}DRAIN_PER_SECOND: {settings.drain_per_second} is less than 1")
    settings.drain_servers, settings.hook_events  # noqa: B018 - they raise for what cannot be read
    _check_audit(settings)
    for name, parse in (
        ("trusted_proxies", Networks.parse),
        ("publish_from", Networks.parse),
        ("origins", Origins.parse),
        ("presence", PatternSet.parse),
    ):
        try:
            parse(getattr(settings, name))
        except ValueError as error:
            raise SettingsError(f"{PREFIX}{name.upper()}: {error}") from None
    if not settings.listeners:
        raise SettingsError(f"{PREFIX}LISTEN: no address to listen on, such as clients://127.0.0.1:8800")


def _check_sizes(settings: Settings) -> None:
    """Raise SettingsError where a size that is taken does not fit into what hands it on."""
    message, snapshot, outbox = settings.message_bytes_max, settings.snapshot_bytes_max, settings.outbox_bytes_max
    if message > MESSAGE_BYTES_MOST:
        raise SettingsError(
            f"{PREFIX}MESSAGE_BYTES_MAX: {message} is more than {MESSAGE_BYTES_MOST}: "
            "a message must fit into what Django says at once"
        )
    if snapshot > SNAPSHOT_BYTES_MOST:
        raise SettingsError(
            f"{PREFIX}SNAPSHOT_BYTES_MAX: {snapshot} is more than {SNAPSHOT_BYTES_MOST}: "
            "a snapshot must fit into what clients take at once"
        )
    if message > snapshot:
        raise SettingsError(
            f"{PREFIX}SNAPSHOT_BYTES_MAX: {snapshot} is less than {PREFIX}MESSAGE_BYTES_MAX, which is {message}: "
            "a subject's first message must fit into its snapshot"
        )
    if message > max(outbox, Limits().message_bytes_max):
        raise SettingsError(
            f"{PREFIX}OUTBOX_BYTES_MAX: {outbox} is less than {PREFIX}MESSAGE_BYTES_MAX, which is {message}: "
            "a message must fit into a client's queue"
        )


def _check_log(settings: Settings) -> None:
    """Raise SettingsError for a level, form or size of the log that cannot be used."""
    try:
        parse_levels(settings.log_level)
    except ValueError as error:
        raise SettingsError(f"{PREFIX}LOG_LEVEL: {error}") from None
    if settings.log_format not in FORMATS:
        raise SettingsError(f"{PREFIX}LOG_FORMAT: {settings.log_format!r} is none of {', '.join(FORMATS)}")
    if settings.log_bytes and settings.log_bytes < LOG_BYTES_LEAST:
        raise SettingsError(f"{PREFIX}LOG_BYTES: {settings.log_bytes} is less than {LOG_BYTES_LEAST}; 0 is never")


def _check_audit(settings: Settings) -> None:
    """Raise SettingsError where what the audit writes, or where it writes, cannot be used."""
    unknown = settings.audit_kinds - set(AUDIT_KINDS)
    if unknown:
        raise SettingsError(f"{PREFIX}AUDIT: {', '.join(sorted(unknown))} is none of {', '.join(AUDIT_KINDS)}")
    if settings.audit_kinds and not settings.audit_folder:
        raise SettingsError(f"{PREFIX}AUDIT: it needs a folder: {PREFIX}AUDIT_FOLDER=/var/log/fastpath")
    if settings.audit_bytes < AUDIT_BYTES_LEAST or settings.audit_files < 1:
        raise SettingsError(f"{PREFIX}AUDIT_BYTES is {AUDIT_BYTES_LEAST} or more, {PREFIX}AUDIT_FILES is 1 or more")


def _check_tokens(settings: Settings) -> None:
    """Raise SettingsError where tokens cannot be checked, in the modes that have some."""
    signed = settings.mode in ("jwt", "rules")
    if signed and len(settings.token_secret.encode()) < 32 and (settings.token_secret or not settings.token_keys):
        raise SettingsError(
            f"{PREFIX}TOKEN_SECRET: mode {settings.mode} needs a secret of 32 bytes or more "
            f"(runrealtime passes Django's), or {PREFIX}TOKEN_KEYS; FASTPATH_MODE=none runs without rights"
        )
    if is_address(settings.token_keys) and (why := check_address(settings.token_keys)):
        raise SettingsError(f"{PREFIX}TOKEN_KEYS: {without_login(settings.token_keys)}: {why}")
    if settings.token_leeway_seconds > LEEWAY_SECONDS_MOST:
        most = f"{settings.token_leeway_seconds} is more than {LEEWAY_SECONDS_MOST}"
        raise SettingsError(f"{PREFIX}TOKEN_LEEWAY_SECONDS: {most}")
    defaults = {item.name: item.default for item in fields(Settings)}
    for name in _OF_JWT:
        if getattr(settings, name) != defaults[name] and settings.mode != "jwt":
            raise SettingsError(
                f"{PREFIX}{name.upper()}: it is of mode jwt; the tokens of mode {settings.mode} are not asked for it"
            )
    settings.claim_map  # noqa: B018 - it raises
    if settings.publish_token and settings.mode != "basic":
        raise SettingsError(f"{PREFIX}PUBLISH_TOKEN: it is of mode basic, and this is mode {settings.mode}")


def without_login(url: str) -> str:
    """Return the address without the passwords in it."""
    return re.sub(r"(_password=)[^&]*", r"\1…", re.sub(r"//.*@", "//…@", url))
