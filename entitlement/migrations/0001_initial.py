"""Rules, the generation and the change log."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Change",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("generation", models.BigIntegerField(db_index=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("rule", "Rule"), ("user", "User"), ("session", "Session")], max_length=7
                    ),
                ),
                (
                    "key",
                    models.TextField(help_text="The rule's or user's primary key, or the session's key."),
                ),
                ("time", models.BigIntegerField(help_text="Milliseconds since 1970-01-01 UTC.")),
            ],
        ),
        migrations.CreateModel(
            name="Generation",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                (
                    "value",
                    models.BigIntegerField(help_text="Raised by every change, inside its transaction."),
                ),
                (
                    "forgotten",
                    models.BigIntegerField(default=0, help_text="Changes up to this generation are no longer listed."),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rule",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("everyone", models.BooleanField(default=False, help_text="Everyone, signed in or not.")),
                (
                    "anonymous",
                    models.BooleanField(default=False, help_text="Only those who are not signed in."),
                ),
                ("pattern", models.CharField(max_length=512)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("subscribe", "subscribe (read)"),
                            ("publish", "publish (write)"),
                            ("both", "subscribe and publish"),
                        ],
                        default="subscribe",
                        max_length=9,
                    ),
                ),
                (
                    "effect",
                    models.CharField(choices=[("allow", "allow"), ("deny", "deny")], default="allow", max_length=5),
                ),
                (
                    "enabled",
                    models.BooleanField(default=True, help_text="A rule that is switched off has no effect."),
                ),
                (
                    "valid_from",
                    models.DateTimeField(blank=True, help_text="Empty: from the beginning.", null=True),
                ),
                ("valid_until", models.DateTimeField(blank=True, help_text="Empty: without end.", null=True)),
                ("note", models.CharField(blank=True, help_text="Why this rule is here.", max_length=200)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="auth.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("pattern", "id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("user__isnull", False),
                                ("group__isnull", True),
                                ("everyone", False),
                                ("anonymous", False),
                            ),
                            models.Q(
                                ("user__isnull", True),
                                ("group__isnull", False),
                                ("everyone", False),
                                ("anonymous", False),
                            ),
                            models.Q(
                                ("user__isnull", True),
                                ("group__isnull", True),
                                ("everyone", True),
                                ("anonymous", False),
                            ),
                            models.Q(
                                ("user__isnull", True),
                                ("group__isnull", True),
                                ("everyone", False),
                                ("anonymous", True),
                            ),
                            _connector="OR",
                        ),
                        name="entitlement_rule_exactly_one_who",
                        violation_error_message=(
                            "Say who, once: choose a user or a group, or tick everyone or anonymous."
                        ),
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("valid_from__isnull", True),
                            ("valid_until__isnull", True),
                            ("valid_from__lt", models.F("valid_until")),
                            _connector="OR",
                        ),
                        name="entitlement_rule_ends_after_it_begins",
                        violation_error_message="The rule would end before it begins.",
                    ),
                ],
            },
        ),
    ]
