"""Every setting of the sidecar: unit, default, reason; an unknown FASTPATH_* is an error."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from .core.limits import Limits
from .listener import Listener, SettingsError

PREFIX = "FASTPATH_"
MODES = ("none", "jwt", "rules")
JOURNALS = ("off", "interval", "batch")
_INT32_MAX = (1 << 31) - 1
_KINDS: dict[type, str] = {int: "a whole number", str: "a text", bool: "true or false"}
_ENGINES = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://")

_FAULTS = ("faults", "faults_do")
"""What faults.py reads: no settings."""


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class Settings:
    """The sidecar's settings, validated once."""

    listen: str = _setting(
        "clients://127.0.0.1:8800,publishers://127.0.0.1:8801",
        "addresses, comma-separated: PURPOSES[+tls]://HOST:PORT[?cert=…&key=…&ciphers=…]; "
        "purposes clients and publishers joined by +; * is all addresses; port 0 picks one; "
        "for clients also deflate=BYTES (messages from that size on are compressed for who offers it), "
        "batch_ms=MS and batch_bytes=BYTES (collect messages so long, or until so many bytes wait); "
        "control+tls://HOST:PORT?cert=…&key=…&ca=… is the control socket for a Django on another host",
    )
    control: str = _setting("", "path of the unix socket for Django; empty: none")
    workers: int = _setting(
        0, "processes behind the same ports; 0: one for each core that this process may use; 1: no others"
    )
    mode: str = _setting(
        "rules", "who decides about rights: none (everybody may), jwt (an outside issuer's tokens), rules (Django)"
    )
    token_secret: str = _setting("", "the HS256 secret that tokens are signed with; needed in modes jwt and rules")
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
    message_bytes_max: int = _setting(1 << 20, "content and fields of one message")
    outbox_bytes_max: int = _setting(
        4 << 20,
        "what may wait for one client that does not read; above it the client is closed with 4001 and may resume",
    )
    unsent_bytes_max: int = _setting(
        128 << 10,
        "what the kernel may hold unsent for one client (TCP_NOTSENT_LOWAT): "
        "a slow client's backlog belongs in the bounded outgoing queue",
    )
    subscriptions_max: int = _setting(10_000, "subscriptions on one connection")
    subjects_max: int = _setting(1_000_000, "subjects in use over all")
    connections_max: int = _setting(
        0, "client connections; 0: as many as the process may open files, less 100 (half of them where files are few)"
    )
    handshake_seconds: int = _setting(10, "until the first command of a client, or the hello of a publisher")
    ping_seconds: int = _setting(25, "a client is pinged this often, and closed after two without any sign of life")
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
    trusted_proxies: str = _setting("127.0.0.1,::1", "addresses whose X-Forwarded-For is believed, comma-separated")
    echo: bool = _setting(False, "answer /echo on the client ports with what was sent, for conformance tests")
    log_level: str = _setting("info", "debug, info, warning or error")

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise SettingsError(f"{PREFIX}MODE: {self.mode!r} is none of {', '.join(MODES)}")
        if self.delivery not in ("guaranteed", "standard"):
            raise SettingsError(f"{PREFIX}DELIVERY: {self.delivery!r} is neither guaranteed nor standard")
        if self.mode != "none" and len(self.token_secret.encode()) < 32:
            raise SettingsError(
                f"{PREFIX}TOKEN_SECRET: mode {self.mode} needs a secret of 32 bytes or more "
                "(runrealtime passes Django's); FASTPATH_MODE=none runs without rights"
            )
        if self.engine != "memory" and not self.engine.startswith(_ENGINES):
            raise SettingsError(
                f"{PREFIX}ENGINE: {_without_login(self.engine)!r} is neither memory nor redis://HOST:PORT"
            )
        if not self.redis_prefix or set(self.redis_prefix) & set("{} \t\r\n"):
            raise SettingsError(f"{PREFIX}REDIS_PREFIX: {self.redis_prefix!r} is empty or has a blank or a brace in it")
        if self.redis_log_messages < 1000:
            raise SettingsError(f"{PREFIX}REDIS_LOG_MESSAGES: {self.redis_log_messages} is less than 1000")
        if self.journal not in JOURNALS:
            raise SettingsError(f"{PREFIX}JOURNAL: {self.journal!r} is none of {', '.join(JOURNALS)}")
        if self.journal != "off" and not self.data:
            raise SettingsError(f"{PREFIX}JOURNAL: {self.journal} needs a folder: {PREFIX}DATA=/var/lib/fastpath")
        if self.journal != "off" and self.engine != "memory":
            raise SettingsError(f"{PREFIX}JOURNAL: with Redis there is no journal: leave it off")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise SettingsError(f"{PREFIX}LOG_LEVEL: {self.log_level!r} is none of debug, info, warning, error")
        for one in fields(self):
            value = getattr(self, one.name)
            least = 1 if one.name.endswith("_seconds") or one.name.endswith("bytes_max") else 0
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise SettingsError(f"{PREFIX}{one.name.upper()}: {value} is less than {least}")
        if self.unsent_bytes_max > _INT32_MAX:
            raise SettingsError(f"{PREFIX}UNSENT_BYTES_MAX: {self.unsent_bytes_max} is more than {_INT32_MAX}")
        for listener in self.listeners:
            if listener.batch_ms and listener.batch_bytes > self.outbox_bytes_max // 2:
                raise SettingsError(
                    f"{PREFIX}LISTEN: batch_bytes={listener.batch_bytes} is more than half of "
                    f"{PREFIX}OUTBOX_BYTES_MAX: a batch must fit into a client's queue"
                )
        if self.drain_per_second < 1:
            raise SettingsError(f"{PREFIX}DRAIN_PER_SECOND: {self.drain_per_second} is less than 1")
        self.drain_servers  # noqa: B018 - raises for what cannot be read
        if not self.listeners:
            raise SettingsError(f"{PREFIX}LISTEN: no address to listen on, such as clients://127.0.0.1:8800")

    @property
    def listeners(self) -> list[Listener]:
        """The addresses to listen on."""
        return [Listener.parse(url) for url in self.listen.split(",") if url.strip()]

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
    def limits(self) -> Limits:
        """The bounds that the core keeps."""
        return Limits(
            message_bytes_max=self.message_bytes_max,
            subscriptions_max=self.subscriptions_max,
            subjects_max=self.subjects_max,
            outbox_bytes_max=self.outbox_bytes_max,
            snapshot_ms=self.snapshot_expiry * 1000,
            cache_messages=self.cache_messages,
            cache_ms=self.cache_seconds * 1000,
            cache_bytes=self.cache_bytes,
        )


def load(environ: Mapping[str, str]) -> Settings:
    """Settings from the TOML file that FASTPATH_CONFIG names, then from the environment; raises SettingsError."""
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
    """Every setting in force, with its reason, as a TOML file; the secret is not shown."""
    lines = []
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name == "token_secret" and value:
            lines += [f"# {one.metadata['help']}", "# token_secret = (set)", ""]
            continue
        if one.name == "engine":
            value = _without_login(value)
        # A text, number or truth value is written the same in TOML as in JSON.
        shown = json.dumps(value, ensure_ascii=False)
        lines += [f"# {one.metadata['help']}", f"{one.name} = {shown}", ""]
    return "\n".join(lines)


def _without_login(url: str) -> str:
    """The address without the passwords in it."""
    return re.sub(r"(_password=)[^&]*", r"\1…", re.sub(r"//.*@", "//…@", url))


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
