"""Settings of the project with its own user model; the database is the one that PEOPLE_DATABASE names."""

import os

SECRET_KEY = "only for tests, and longer than HS256 asks for"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "tests.support.entitlement.people",
    "entitlement",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
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
ROOT_URLCONF = __name__
urlpatterns: list[object] = []
AUTH_USER_MODEL = "people.Person"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["PEOPLE_DATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
