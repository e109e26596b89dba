"""More options of subjects: snapshots, delivery, presence, the rate of publications."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("entitlement", "0006_subject_options"),
    ]

    operations = [
        migrations.AddField(
            model_name="subjectoptions",
            name="delivery",
            field=models.CharField(
                blank=True,
                choices=[("guaranteed", "as each publication asks"), ("standard", "standard")],
                help_text="Standard: each publication is of standard quality, whatever it asks for: "
                "without number, in no cache.",
                max_length=10,
                null=True,
                verbose_name="delivery",
            ),
        ),
        migrations.AddField(
            model_name="subjectoptions",
            name="presence",
            field=models.BooleanField(
                blank=True,
                choices=[(True, "known"), (False, "not known")],
                help_text="Whether it is known, and told, who is on a subject and who joins and leaves.",
                null=True,
                verbose_name="presence",
            ),
        ),
        migrations.AddField(
            model_name="subjectoptions",
            name="publish_rate",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="How many may come from each connection to all these subjects together; whoever sends more "
                "waits, and nothing is lost; 0: any.",
                null=True,
                validators=[django.core.validators.MaxValueValidator(1000000)],
                verbose_name="publications a second",
            ),
        ),
        migrations.AddField(
            model_name="subjectoptions",
            name="retained",
            field=models.BooleanField(
                blank=True,
                choices=[(True, "kept"), (False, "not kept")],
                help_text="Whether the newest state is kept for who comes; not kept: what is there goes.",
                null=True,
                verbose_name="snapshot",
            ),
        ),
    ]
