"""Single tokens that are revoked, and changes of passwords and tokens in the log."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("entitlement", "0001_initial"),
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
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="change",
            name="key",
            field=models.TextField(help_text="The rule's or user's primary key, the session's key, or the token's id."),
        ),
        migrations.CreateModel(
            name="RevokedToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("jti", models.CharField(max_length=255, unique=True, verbose_name="id of the token")),
                (
                    "user_name",
                    models.CharField(
                        blank=True, help_text="Empty where only the id was known.", max_length=255, verbose_name="user"
                    ),
                ),
                ("time", models.DateTimeField(auto_now_add=True, verbose_name="revoked at")),
                (
                    "expires",
                    models.DateTimeField(help_text="No token of this id is valid after this, revoked or not."),
                ),
                ("note", models.CharField(blank=True, help_text="Why it was revoked.", max_length=200)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="revoked by",
                    ),
                ),
            ],
            options={"verbose_name": "revoked token", "ordering": ("-time",), "default_permissions": ("add", "view")},
        ),
    ]
