"""Settings of the example: what startproject makes, and at the end the lines that are of interest."""

from __future__ import annotations

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("EXAMPLE_VAR", BASE_DIR / "var"))
VAR.mkdir(mode=0o700, exist_ok=True)
SECRET_KEY = "an example has no secrets: it listens to this machine alone"  # noqa: S105
DEBUG = True
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "realtime",
    "entitlement",
    "reports",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "reports.urls"
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
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": VAR / "db.sqlite3",
        # Several processes write to it: each waits for its turn.
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "/static/"
TIME_ZONE = "UTC"
USE_TZ = True
ASGI_APPLICATION = "realtime.asgi.application"
REALTIME = {"CONTROL": str(VAR / "fastpath.sock"), "DATA": VAR / "fastpath"}
# A folder is the broker here, so that the example needs no server: a project has Redis or RabbitMQ in its place.
QUEUE = VAR / "queue"
QUEUE.mkdir(exist_ok=True)
CELERY_BROKER_URL = "filesystem://"
CELERY_BROKER_TRANSPORT_OPTIONS = {"data_folder_in": QUEUE, "data_folder_out": QUEUE, "control_folder": VAR / "control"}
CELERY_TASK_IGNORE_RESULT = True
