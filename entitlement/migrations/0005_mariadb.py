"""MariaDB and MySQL: texts that are compared by their bytes, and rules that go with their user or group at once."""

from django.conf import settings
from django.db import migrations, models

import entitlement.models

COLUMNS = (
    ("entitlement_change", "key", "longtext"),
    ("entitlement_revokedtoken", "jti", "varchar(255)"),
    ("entitlement_rule", "pattern", "varchar(512)"),
)
"""Most collations take ``Abc`` and ``abc`` for the same: another session or token would count as revoked."""


def compare_bytes(apps, schema_editor):
    """On other databases texts are compared so from the beginning."""
    if schema_editor.connection.vendor == "mysql":
        for table, column, kind in COLUMNS:
            schema_editor.execute(
                f"ALTER TABLE `{table}` MODIFY `{column}` {kind} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
            )


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("entitlement", "0004_words"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="rule",
            name="group",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=entitlement.models.with_its_holder,
                related_name="+",
                to="auth.group",
                verbose_name="group",
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="user",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=entitlement.models.with_its_holder,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.RunPython(compare_bytes, migrations.RunPython.noop, atomic=False),
    ]
