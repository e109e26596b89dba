"""Settings of the site in the containers: all that differs from place to place comes from the environment.

SITE_SECRET_KEY, SITE_HOSTS (comma list), SITE_CONTROL (control sockets of all nodes), SITE_SERVERS (the nodes' client
addresses, in the same order, or one address for all) and SITE_RELAY (where the web server itself reaches a node), with
spaces between several; SITE_HTTPS=proxy behind a proxy that ends TLS; FASTPATH_TOKEN_SECRET as the sidecars have it.
"""

from __future__ import annotations

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ["SITE_SECRET_KEY"]
ALLOWED_HOSTS = os.environ.get("SITE_HOSTS", "localhost,127.0.0.1").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
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
ROOT_URLCONF = "mysite.urls"
ASGI_APPLICATION = "mysite.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
# On a volume that web, agent and collector share, on one machine; with more of them take PostgreSQL.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "var" / "db.sqlite3",
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "/static/"
LOGIN_URL = "/admin/login/"
TIME_ZONE = "UTC"
USE_TZ = True

if os.environ.get("SITE_HTTPS") == "proxy":  # which sets the header, and takes off what came from outside
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True

_CONTROL = os.environ.get("SITE_CONTROL", "/run/fastpath/control.sock").split()
_SERVERS = os.environ.get("SITE_SERVERS", "ws://{host}:8800/ws").split()
REALTIME = {
    "CONTROL": _CONTROL,
    # One address that leads to all nodes belongs to none of them.
    "SERVERS": _SERVERS
    if len(_SERVERS) == 1 < len(_CONTROL)
    else [{"url": url, "control": control} for url, control in zip(_SERVERS, _CONTROL, strict=True)],
    "RELAY_URL": os.environ.get("SITE_RELAY", "ws://127.0.0.1:8800/ws"),
    "TOKEN_SECRET": os.environ["FASTPATH_TOKEN_SECRET"],
}
