"""The Django app: registers the system checks."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register


class RealtimeConfig(AppConfig):
    """Live data: publish(), snapshots, tokens, pages."""

    name = "realtime"
    verbose_name = "Realtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks."""
        from realtime import checks

        register(checks.check_keys)
        register(checks.check_publishing)
        register(checks.check_hook)
        register(checks.check_sidecar)
        register(checks.check_listeners)
        register(checks.check_addresses)
        register(checks.check_static_files, deploy=True)
