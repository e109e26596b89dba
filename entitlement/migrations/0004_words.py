"""What the admin calls the models, in every language; no table changes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("entitlement", "0003_rule_changes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="revokedtoken",
            options={
                "default_permissions": ("add", "view"),
                "ordering": ("-time",),
                "verbose_name": "revoked token",
                "verbose_name_plural": "revoked tokens",
            },
        ),
        migrations.AlterModelOptions(
            name="rule",
            options={"ordering": ("pattern", "id"), "verbose_name": "rule", "verbose_name_plural": "rules"},
        ),
        migrations.AlterField(
            model_name="revokedtoken",
            name="expires",
            field=models.DateTimeField(
                help_text="No token of this id is valid after this, revoked or not.", verbose_name="expires"
            ),
        ),
        migrations.AlterField(
            model_name="revokedtoken",
            name="note",
            field=models.CharField(blank=True, help_text="Why it was revoked.", max_length=200, verbose_name="note"),
        ),
        migrations.AlterField(
            model_name="rule",
            name="action",
            field=models.CharField(
                choices=[
                    ("subscribe", "subscribe (read)"),
                    ("publish", "publish (write)"),
                    ("both", "subscribe and publish"),
                ],
                default="subscribe",
                max_length=9,
                verbose_name="action",
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="anonymous",
            field=models.BooleanField(
                default=False, help_text="Only those who are not signed in.", verbose_name="anonymous"
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="effect",
            field=models.CharField(
                choices=[("allow", "allow"), ("deny", "deny")], default="allow", max_length=5, verbose_name="effect"
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="enabled",
            field=models.BooleanField(
                default=True, help_text="A rule that is switched off has no effect.", verbose_name="enabled"
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="everyone",
            field=models.BooleanField(default=False, help_text="Everyone, signed in or not.", verbose_name="everyone"),
        ),
        migrations.AlterField(
            model_name="rule",
            name="group",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="auth.group",
                verbose_name="group",
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="note",
            field=models.CharField(blank=True, help_text="Why this rule is here.", max_length=200, verbose_name="note"),
        ),
        migrations.AlterField(
            model_name="rule",
            name="pattern",
            field=models.CharField(max_length=512, verbose_name="pattern"),
        ),
        migrations.AlterField(
            model_name="rule",
            name="user",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="valid_from",
            field=models.DateTimeField(
                blank=True, help_text="Empty: from the beginning.", null=True, verbose_name="valid from"
            ),
        ),
        migrations.AlterField(
            model_name="rule",
            name="valid_until",
            field=models.DateTimeField(
                blank=True, help_text="Empty: without end.", null=True, verbose_name="valid until"
            ),
        ),
        migrations.AlterField(
            model_name="rulechange",
            name="after",
            field=models.JSONField(null=True, verbose_name="after"),
        ),
        migrations.AlterField(
            model_name="rulechange",
            name="before",
            field=models.JSONField(null=True, verbose_name="before"),
        ),
        migrations.AlterField(
            model_name="rulechange",
            name="means",
            field=models.CharField(
                help_text="The admin, an import, a command, or code.", max_length=100, verbose_name="means"
            ),
        ),
        migrations.AlterField(
            model_name="rulechange",
            name="time",
            field=models.DateTimeField(auto_now_add=True, db_index=True, verbose_name="time"),
        ),
        migrations.AlterField(
            model_name="rulechange",
            name="user_key",
            field=models.CharField(
                blank=True,
                help_text="The primary key; the user may be gone by now.",
                max_length=255,
                verbose_name="user key",
            ),
        ),
    ]
