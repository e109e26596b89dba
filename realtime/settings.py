"""Django settings of this project: development by default, production through environment variables.

REALTIME_SECRET_KEY, REALTIME_DEBUG (0 or 1), REALTIME_HTTPS (0, direct, proxy), REALTIME_HSTS_SECONDS,
REALTIME_ALLOWED_HOSTS (comma list), REALTIME_DATABASE (path of the SQLite file), REALTIME_VAR (folder of run-time
files), REALTIME_OUTBOX (alias of its database), REALTIME_TOKEN_KEYS (file of the keys that sign tokens), REALTIME_HOOK
(class of the hook), REALTIME_LOG_LEVEL, REALTIME_LOG_FORMAT (text or json; that of FASTPATH_LOG_FORMAT);
REALTIME_STATS_LISTEN and REALTIME_JMX (addresses of their own for the statistics), each with its …_PASSWORD;
for several nodes REALTIME_CONTROL (their control addresses, with spaces between) and REALTIME_SERVERS (their client
addresses, JSON). FASTPATH_CONTROL, FASTPATH_TOKEN_SECRET and FASTPATH_LISTEN are the sidecar's own variables: both
sides must agree on them.
docs/develop/django.md explains each.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import tempfile
from pathlib import Path

from entitlement.conf import control_path

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("REALTIME_VAR", BASE_DIR / "var")).absolute()
VAR.mkdir(mode=0o700, parents=True, exist_ok=True)


def _secret_key() -> str:
    """Return the key of REALTIME_SECRET_KEY, else one that is made once and kept in var/, readable by its owner
    alone."""
    if given := os.environ.get("REALTIME_SECRET_KEY"):
        return given
    path = VAR / "secret_key"
    if not path.exists():
        # Written aside and linked into place, so that of two processes which start at once one wins as a whole.
        aside = VAR / f"secret_key.{os.getpid()}"
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        aside.unlink()
    return path.read_text().strip()


SECRET_KEY = _secret_key()
DEBUG = os.environ.get("REALTIME_DEBUG", "1") == "1"
ALLOWED_HOSTS = [
    host.strip()
    for host in os.environ.get("REALTIME_ALLOWED_HOSTS", "localhost,.localhost,127.0.0.1,[::1]").split(",")
    if host.strip()
]

REALTIME = {
    "CONTROL": os.environ.get("REALTIME_CONTROL", "").split()
    or os.environ.get("FASTPATH_CONTROL")
    or control_path(VAR),
    "BACKEND": "sidecar",  # also in the tests of this repository, which start sidecars of their own
    "ON_FAILURE": "call",  # the tests of this repository are told what a call failed by
    "OUTBOX": os.environ.get("REALTIME_OUTBOX"),
    "SERVERS": json.loads(os.environ.get("REALTIME_SERVERS") or "null"),
    "DATA": VAR / "fastpath",
    "AUDIT_FOLDER": VAR / "audit",
    "TOKEN_SECRET": os.environ.get("FASTPATH_TOKEN_SECRET"),
    "HOOK": os.environ.get("REALTIME_HOOK"),
    "STATS_DATABASE": os.environ.get("REALTIME_STATS_DATABASE"),
    "STATS_LISTEN": os.environ.get("REALTIME_STATS_LISTEN"),
    "STATS_PASSWORD": os.environ.get("REALTIME_STATS_PASSWORD"),
    "JMX": os.environ.get("REALTIME_JMX"),
    "JMX_PASSWORD": os.environ.get("REALTIME_JMX_PASSWORD"),
    "TOKEN_KEYS": os.environ.get("REALTIME_TOKEN_KEYS"),
    "BASE_TEMPLATE": "base.html",
}

INSTALLED_APPS = [
    "daphne",  # before staticfiles: it brings runserver for ASGI
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "realtime",
    "entitlement",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "realtime.demo.urls"
ASGI_APPLICATION = "realtime.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("REALTIME_DATABASE", VAR / "db.sqlite3"),
        # Readers and the one writer do not block each other, and a writer waits for its turn from the start of its
        # transaction on instead of failing in the middle.
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
        # In a file: the agent's thread and the processes that tests start see it as well.
        "TEST": {"NAME": Path(tempfile.gettempdir()) / f"realtime-test-{os.getpid()}.sqlite3"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
STATIC_URL = "/static/"
STATIC_ROOT = VAR / "static"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

# Pages over HTTPS: "direct" when this process is asked over TLS itself, "proxy" when one in front of it ends TLS and
# says so in X-Forwarded-Proto, which it must set itself, whatever the browser sent.
HTTPS = os.environ.get("REALTIME_HTTPS", "0")
if HTTPS not in ("0", "direct", "proxy"):
    raise ValueError(f"REALTIME_HTTPS is 0, direct or proxy, not {HTTPS!r}")
if HTTPS != "0":
    SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$"]  # a load balancer asks without TLS
    SECURE_HSTS_SECONDS = int(os.environ.get("REALTIME_HSTS_SECONDS", 30 * 24 * 3600))
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True
if HTTPS == "proxy":
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
}

LOG_FORMAT = os.environ.get("REALTIME_LOG_FORMAT") or os.environ.get("FASTPATH_LOG_FORMAT") or "text"
if LOG_FORMAT not in ("text", "json"):
    raise ValueError(f"REALTIME_LOG_FORMAT is text or json, not {LOG_FORMAT!r}")


def _tells_more(record: logging.LogRecord) -> bool:
    """Return True if a line about a request is more than its status, which the access log has: a fault, with its
    traceback."""
    return record.exc_info is not None


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"tells_more": {"()": "django.utils.log.CallbackFilter", "callback": _tells_more}},
    "formatters": {
        "text": {"()": "fastpath.logs.Text"},
        "json": {"()": "fastpath.logs.Json", "worker": "django"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": os.environ.get("REALTIME_LOG_LEVEL", "INFO")},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.request": {"filters": ["tells_more"]},
    },
}
