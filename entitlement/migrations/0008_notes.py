"""Notes of changes say who has written them, so that those of many rows let others go first."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("entitlement", "0007_more_options")]

    operations = [
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
        migrations.AddIndex(
            model_name="change",
            index=models.Index(fields=["generation", "writer", "id"], name="entitlement_change_writer"),
        ),
    ]
