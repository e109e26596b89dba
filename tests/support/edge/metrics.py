"""The settings of a sidecar whose metrics are read."""

from __future__ import annotations

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:0"
SECRET = "0123456789abcdef0123456789abcdef"
