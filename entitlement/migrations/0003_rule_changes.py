"""The history of rules, and an index for lists and look-ups by pattern."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("entitlement", "0002_tokens"),
    ]

    operations = [
        migrations.CreateModel(
            name="RuleChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                (
                    "rule",
                    models.BigIntegerField(
                        db_index=True, help_text="The rule's number; it may be gone by now.", verbose_name="rule"
                    ),
                ),
                ("time", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "user_key",
                    models.CharField(
                        blank=True, help_text="The primary key; the user may be gone by now.", max_length=255
                    ),
                ),
                (
                    "user_name",
                    models.CharField(
                        blank=True, help_text="As the user was called then.", max_length=255, verbose_name="by"
                    ),
                ),
                (
                    "means",
                    models.CharField(help_text="The admin, an import, a command, or code.", max_length=100),
                ),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
            ],
            options={
                "verbose_name": "change of a rule",
                "verbose_name_plural": "changes of rules",
                "ordering": ("-id",),
            },
        ),
        migrations.AddIndex(
            model_name="rule",
            index=models.Index(fields=["pattern", "id"], name="entitlement_rule_pattern"),
        ),
    ]
