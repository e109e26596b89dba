"""The one table of people."""

import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Person",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "key",
                    models.UUIDField(db_column="person key", default=uuid.uuid4, primary_key=True, serialize=False),
                ),
                ("email", models.EmailField(db_column="address", max_length=254, unique=True)),
                ("is_active", models.BooleanField(db_column="may_work", default=True)),
                ("is_superuser", models.BooleanField(default=False)),
                (
                    "crews",
                    models.ManyToManyField(db_table="crew membership", related_name="crew_members", to="auth.group"),
                ),
            ],
            options={
                "db_table": "staff",
            },
        ),
    ]
