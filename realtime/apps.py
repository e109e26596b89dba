"""The Django app: registers the system checks."""

from __future__ import annotations

import sys

from django.apps import AppConfig, apps
from django.core.checks import register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import get_commands
from django.utils.translation import gettext_lazy

from entitlement.apps import require_django

_DJANGOS = ("django.core", "django.contrib.staticfiles")
"""Apps whose command `runserver` may be replaced."""


class RealtimeConfig(AppConfig):
    """Live data: publish(), snapshots, tokens, pages."""

    name = "realtime"
    verbose_name = gettext_lazy("Realtime")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Ask for the other half first of all: without it the first import of a model would say nothing of what is
        missing."""
        require_django()
        if not apps.is_installed("entitlement"):
            raise ImproperlyConfigured(
                'INSTALLED_APPS names "realtime" without "entitlement", which has its rules and tokens: '
                'INSTALLED_APPS += ["realtime", "entitlement"]'
            )
        super().import_models()

    def ready(self) -> None:
        """Register the checks."""
        from realtime import checks

        register(checks.check_keys)
        register(checks.check_publishing)
        register(checks.check_token_authenticators)
        register(checks.check_provider)
        register(checks.check_statistics)
        register(checks.check_outbox)
        register(checks.check_extras)
        register(checks.check_base_template)
        register(checks.check_hook)
        register(checks.check_urls)
        register(checks.check_sidecar)
        register(checks.check_listeners)
        register(checks.check_addresses)
        _offer_runserver()


def _offer_runserver() -> None:
    """Put our `manage.py runserver` in place of Django's, wherever this app stands; not of another app's."""
    from realtime.conf import conf

    commands = get_commands()
    if sys.argv[1:2] == ["runserver"] and conf.runserver and commands["runserver"] in _DJANGOS:
        commands["runserver"] = "realtime"
