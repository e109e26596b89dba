"""The Django app: connects triggers, checks and the logout signal."""

from __future__ import annotations

import django
from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_out
from django.core.checks import Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate, post_save, pre_delete, pre_migrate, pre_save
from django.utils.translation import gettext_lazy

DJANGO = (5, 2)
"""The oldest that is supported, as the distribution's metadata says."""


def require_django() -> None:
    """Raise ImproperlyConfigured, with what to type, where Django is too old."""
    if django.VERSION[:2] < DJANGO:
        raise ImproperlyConfigured(
            f"django-fastpath needs Django {'.'.join(map(str, DJANGO))} or newer, and this is {django.__version__}: "
            f"pip install --upgrade 'Django>={'.'.join(map(str, DJANGO))}'"
        )


class EntitlementConfig(AppConfig):
    """Rules of who may read and publish what."""

    name = "entitlement"
    verbose_name = gettext_lazy("Entitlement")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Look at Django first of all: an older one would fail at a model, with words that say nothing of it."""
        require_django()
        super().import_models()

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
