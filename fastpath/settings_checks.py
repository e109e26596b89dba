"""What values the settings may have, and what each wrong one is answered with; and whether the interpreter is fast."""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import fields
from typing import TYPE_CHECKING

from .core.auth.allowed_addresses import Networks
from .core.auth.allowed_origins import Origins
from .core.matching.pattern_set import PatternSet
from .listen_address import SettingsError
from .logs.formats import FORMATS, parse_levels

if TYPE_CHECKING:
    from .settings import Settings

PREFIX = "FASTPATH_"
MODES = ("none", "basic", "jwt", "rules", "custom")
JOURNALS = ("off", "interval", "batch")
AUDIT_KINDS = ("access", "message", "cache", "statistics")
AUDIT_BYTES_LEAST = 4096
LOG_BYTES_LEAST = 4096
_INT32_MAX = (1 << 31) - 1
_ENGINES = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://")

_MAY_BE_OFF = ("hang_seconds", "idle_seconds", "memory_bytes_max")
"""Limits that 0 switches off."""


def check(settings: Settings) -> None:
    """Raise SettingsError for the first value that makes no sense."""
    if settings.mode not in MODES:
        raise SettingsError(f"{PREFIX}MODE: {settings.mode!r} is none of {', '.join(MODES)}")
    if settings.delivery not in ("guaranteed", "standard"):
        raise SettingsError(f"{PREFIX}DELIVERY: {settings.delivery!r} is neither guaranteed nor standard")
    _check_tokens(settings)
    if settings.engine != "memory" and not settings.engine.startswith(_ENGINES):
        raise SettingsError(
            f"{PREFIX}ENGINE: {without_login(settings.engine)!r} is neither memory nor redis://HOST:PORT"
        )
    if not settings.redis_prefix or set(settings.redis_prefix) & set("{} \t\r\n"):
        raise SettingsError(f"{PREFIX}REDIS_PREFIX: {settings.redis_prefix!r} is empty or has a blank or a brace in it")
    if settings.redis_log_messages < 1000:
        raise SettingsError(f"{PREFIX}REDIS_LOG_MESSAGES: {settings.redis_log_messages} is less than 1000")
    if settings.journal not in JOURNALS:
        raise SettingsError(f"{PREFIX}JOURNAL: {settings.journal!r} is none of {', '.join(JOURNALS)}")
    if settings.journal != "off" and not settings.data:
        raise SettingsError(f"{PREFIX}JOURNAL: {settings.journal} needs a folder: {PREFIX}DATA=/var/lib/fastpath")
    if settings.journal != "off" and settings.engine != "memory":
        raise SettingsError(f"{PREFIX}JOURNAL: with Redis there is no journal: leave it off")
    _check_log(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        counts = one.name.endswith(("_seconds", "bytes_max")) and one.name not in _MAY_BE_OFF
        least = 1 if counts else 0
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise SettingsError(f"{PREFIX}{one.name.upper()}: {value} is less than {least}")
    if settings.unsent_bytes_max > _INT32_MAX:
        raise SettingsError(f"{PREFIX}UNSENT_BYTES_MAX: {settings.unsent_bytes_max} is more than {_INT32_MAX}")
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


def _check_log(settings: Settings) -> None:
    """Levels, form and size of the log."""
    try:
        parse_levels(settings.log_level)
    except ValueError as error:
        raise SettingsError(f"{PREFIX}LOG_LEVEL: {error}") from None
    if settings.log_format not in FORMATS:
        raise SettingsError(f"{PREFIX}LOG_FORMAT: {settings.log_format!r} is none of {', '.join(FORMATS)}")
    if settings.log_bytes and settings.log_bytes < LOG_BYTES_LEAST:
        raise SettingsError(f"{PREFIX}LOG_BYTES: {settings.log_bytes} is less than {LOG_BYTES_LEAST}; 0 is never")


def _check_audit(settings: Settings) -> None:
    """What is written down, and where."""
    unknown = settings.audit_kinds - set(AUDIT_KINDS)
    if unknown:
        raise SettingsError(f"{PREFIX}AUDIT: {', '.join(sorted(unknown))} is none of {', '.join(AUDIT_KINDS)}")
    if settings.audit_kinds and not settings.audit_folder:
        raise SettingsError(f"{PREFIX}AUDIT: it needs a folder: {PREFIX}AUDIT_FOLDER=/var/log/fastpath")
    if settings.audit_bytes < AUDIT_BYTES_LEAST or settings.audit_files < 1:
        raise SettingsError(f"{PREFIX}AUDIT_BYTES is {AUDIT_BYTES_LEAST} or more, {PREFIX}AUDIT_FILES is 1 or more")


def _check_tokens(settings: Settings) -> None:
    """What tokens are checked by, in the modes that have some."""
    signed = settings.mode in ("jwt", "rules")
    if signed and len(settings.token_secret.encode()) < 32 and (settings.token_secret or not settings.token_keys):
        raise SettingsError(
            f"{PREFIX}TOKEN_SECRET: mode {settings.mode} needs a secret of 32 bytes or more "
            f"(runrealtime passes Django's), or {PREFIX}TOKEN_KEYS; FASTPATH_MODE=none runs without rights"
        )
    for name in ("token_audience", "token_issuer"):
        if getattr(settings, name) and settings.mode != "jwt":
            raise SettingsError(
                f"{PREFIX}{name.upper()}: it is of mode jwt; the tokens of mode {settings.mode} are not asked for it"
            )
    if settings.publish_token and settings.mode != "basic":
        raise SettingsError(f"{PREFIX}PUBLISH_TOKEN: it is of mode basic, and this is mode {settings.mode}")


def without_login(url: str) -> str:
    """The address without the passwords in it."""
    return re.sub(r"(_password=)[^&]*", r"\1…", re.sub(r"//.*@", "//…@", url))


# The interpreter

OPTIMIZED, NOT_OPTIMIZED, UNKNOWN_BUILD = "optimised", "not optimised", "not known"


def python_build() -> str:
    """Whether this Python was built with ``--enable-optimizations`` (profile-guided), as far as it says so itself.

    A distribution's own, in ``/usr``, need not: Debian's is built in two ways, and describes the one that is not run.
    """
    arguments = sysconfig.get_config_var("CONFIG_ARGS")
    if isinstance(arguments, str) and "--enable-optimizations" in arguments:
        return OPTIMIZED
    return UNKNOWN_BUILD if not arguments or sys.base_prefix == "/usr" else NOT_OPTIMIZED


def slow_interpreter() -> str:
    """A warning, or nothing."""
    if python_build() != NOT_OPTIMIZED:
        return ""
    return (
        f"{sys.base_prefix} is a Python built without --enable-optimizations: the sidecar takes 3 to 14 % more CPU "
        "time than with one that has them"
    )
