"""Options of subjects by pattern, and their changes in the log."""

import django.core.validators
from django.db import migrations, models


def compare_bytes(apps, schema_editor):
    """On MariaDB and MySQL most collations take ``/a/B`` and ``/a/b`` for the same: these are two patterns."""
    if schema_editor.connection.vendor == "mysql":
        schema_editor.execute(
            "ALTER TABLE `entitlement_subjectoptions` MODIFY `pattern` varchar(512) "
            "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        )


class Migration(migrations.Migration):
    dependencies = [
        ("entitlement", "0005_mariadb"),
    ]

    operations = [
        migrations.AlterField(
            model_name="change",
            name="kind",
            field=models.CharField(
                choices=[
                    ("rule", "Rule"),
                    ("user", "User"),
                    ("password", "Password"),
                    ("session", "Session"),
                    ("token", "Token"),
                    ("options", "Options"),
                ],
                max_length=8,
            ),
        ),
        migrations.CreateModel(
            name="SubjectOptions",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pattern", models.CharField(max_length=512, unique=True, verbose_name="pattern")),
                (
                    "cache_messages",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="How many of the newest messages of each subject are kept for who comes back; "
                        "0: none.",
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(1000000)],
                        verbose_name="cached messages",
                    ),
                ),
                (
                    "cache_seconds",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="For how many seconds each of them is kept.",
                        null=True,
                        validators=[django.core.validators.MaxValueValidator(2592000)],
                        verbose_name="cached for",
                    ),
                ),
                (
                    "conflation_ms",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Milliseconds, a multiple of 100: nobody is sent a subject more often than once "
                        "in so long; 0: each message, if that is what they ask for.",
                        null=True,
                        validators=[
                            django.core.validators.MaxValueValidator(3600000),
                            django.core.validators.StepValueValidator(100),
                        ],
                        verbose_name="least conflation",
                    ),
                ),
                (
                    "note",
                    models.CharField(
                        blank=True, help_text="Why these options are here.", max_length=200, verbose_name="note"
                    ),
                ),
            ],
            options={
                "verbose_name": "options of subjects",
                "verbose_name_plural": "options of subjects",
                "ordering": ("pattern", "id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cache_messages__isnull", True), ("cache_messages__lte", 1000000), _connector="OR"
                            ),
                            models.Q(("cache_seconds__isnull", True), ("cache_seconds__lte", 2592000), _connector="OR"),
                            models.Q(("conflation_ms__isnull", True), ("conflation_ms__lte", 3600000), _connector="OR"),
                        ),
                        name="entitlement_options_within_bounds",
                    )
                ],
            },
        ),
        migrations.RunPython(compare_bytes, migrations.RunPython.noop, atomic=False),
    ]
