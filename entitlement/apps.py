"""The Django app: connects triggers, checks and the logout signal."""

from __future__ import annotations

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_out
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate, post_save, pre_delete, pre_migrate, pre_save
from django.utils.translation import gettext_lazy


class EntitlementConfig(AppConfig):
    """Rules of who may read and publish what."""

    name = "entitlement"
    verbose_name = gettext_lazy("Entitlement")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Hook into migrate, the system checks and logout."""
        from entitlement import checks, history, installation, sessions
        from entitlement.following import migrating
        from entitlement.models import Rule

        pre_migrate.connect(migrating.before_migrate, sender=self)
        post_migrate.connect(migrating.after_migrate, sender=self)
        pre_save.connect(history.before_save, sender=Rule)
        post_save.connect(history.after_save, sender=Rule)
        pre_delete.connect(history.before_delete, sender=Rule)
        user_logged_out.connect(sessions.record_logout, dispatch_uid="entitlement.record_logout")
        register(checks.check_database)
        register(checks.check_settings)
        register(checks.check_permissions)
        register(checks.check_rules)
        register(installation.check_packages)
        register(checks.check_triggers, Tags.database)
        register(checks.check_rows, Tags.database)
