"""Notes of changes say who has written them, so that those of many rows let others go first."""

from django.db import migrations, models

import entitlement.models


def compare_bytes(apps, schema_editor):
    """As the log does (0005)."""
    if schema_editor.connection.vendor == "mysql":
        schema_editor.execute(
            "ALTER TABLE `entitlement_deletedchange` "
            "MODIFY `key` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        )


class Migration(migrations.Migration):
    dependencies = [("entitlement", "0007_more_options")]

    operations = [
        migrations.CreateModel(
            name="DeletedChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=8)),
                ("key", models.TextField()),
                ("time", models.BigIntegerField()),
            ],
        ),
        migrations.AddField(
            model_name="change",
            name="writer",
            field=models.BigIntegerField(
                help_text="The transaction that noted it, on MariaDB the connection: those of one are not told apart.",
                null=True,
            ),
        ),
        migrations.AlterField(model_name="change", name="generation", field=models.BigIntegerField()),
        migrations.AlterField(
            model_name="generation",
            name="value",
            field=models.BigIntegerField(help_text="Above that of every change before."),
        ),
        migrations.RunPython(compare_bytes, migrations.RunPython.noop, atomic=False),
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["generation", "writer", "id"], name="entitlement_change_writer"),
        ),
        migrations.AddIndex(
            model_name="change",
            index=entitlement.models.KeyIndex(fields=["kind", "key"], name="entitlement_change_key"),
        ),
    ]
