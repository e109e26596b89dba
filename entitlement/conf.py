"""What entitlement reads of the REALTIME settings, with its defaults."""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

_SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 107; the rest is left for names that are made from it."""

_NO_CONTROL = 'Set REALTIME["CONTROL"] to the path of the sidecar\'s control socket.'

TOKEN_SECONDS = 12 * 3600
"""Seconds that a token is valid unless asked otherwise; one of a session is never valid for longer."""

TOKEN_SECONDS_MAX = 30 * 24 * 3600
"""The longest that a token without a session (a publisher's) may be valid; changes are remembered as long."""


def token_secret() -> str:
    """Return the HS256 secret of tokens: REALTIME["TOKEN_SECRET"], else one derived from SECRET_KEY."""
    given = _read("TOKEN_SECRET", "")
    if given:
        return str(given)
    return hmac.new(str(settings.SECRET_KEY).encode(), b"realtime token", hashlib.sha256).hexdigest()


def sidecar_secret() -> str:
    """Return the secret for the sidecar: none where tokens are signed with keys, unless TOKEN_SECRET is set too."""
    return token_secret() if _read("TOKEN_SECRET", "") or not token_keys() else ""


def token_keys() -> str:
    """Return the path of the JWK set with the keys that sign, REALTIME["TOKEN_KEYS"]; empty: the secret signs
    (HS256)."""
    return str(_read("TOKEN_KEYS", "") or "")


def token_seconds() -> int:
    """Return the default lifetime of a token in seconds: REALTIME["TOKEN_SECONDS"]."""
    return int(_read("TOKEN_SECONDS", TOKEN_SECONDS))


def token_seconds_max() -> int:
    """Return the longest validity a token may be minted with, in seconds: REALTIME["TOKEN_SECONDS_MAX"]."""
    return max(int(_read("TOKEN_SECONDS_MAX", TOKEN_SECONDS_MAX)), token_seconds())


def permissions() -> Any:
    """Return the project's function of a user, or its dotted path, REALTIME["PERMISSIONS"]; None: there is none."""
    return _read("PERMISSIONS", None) or None


def control_addresses() -> list[str]:
    """Return paths of control sockets and tls:// addresses, one or more: REALTIME["CONTROL"], else
    ``default_control()``."""
    given = _read("CONTROL", None)
    if given is None:
        return [default_control()]
    found = [str(one) for one in (given if isinstance(given, list | tuple) else [given]) if str(one)]
    if not found:
        raise ImproperlyConfigured(_NO_CONTROL)
    return found


def default_control() -> str:
    """Return BASE_DIR/var/fastpath.sock, where a project names no socket; raise ImproperlyConfigured without
    BASE_DIR."""
    base = getattr(settings, "BASE_DIR", None)
    if not base:
        raise ImproperlyConfigured(_NO_CONTROL)
    return control_path(Path(base) / "var")


def control_path(folder: Path) -> str:
    """Return the control socket in a folder, or in a private one of the system's where that path would be too long.

    Raises ImproperlyConfigured when the private folder is somebody else's as well.
    """
    path = folder.absolute() / "fastpath.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        return str(path)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    private = Path(tempfile.gettempdir()) / f"realtime-{os.getuid()}-{digest}"
    private.mkdir(mode=0o700, exist_ok=True)
    status = private.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ImproperlyConfigured(f"{private} is not this user's alone: remove it, or choose another control socket")
    return str(private / "fastpath.sock")


def given() -> Mapping[str, Any]:
    """Return REALTIME as the project has it; empty where it is none that can be read, which a check tells."""
    found = getattr(settings, "REALTIME", {})
    return found if isinstance(found, Mapping) else {}


def _read(name: str, default: Any) -> Any:
    value = given().get(name)
    return default if value is None else value
