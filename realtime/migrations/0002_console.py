"""The permission to use the debug console."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("realtime", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Console",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "managed": False,
                "default_permissions": (),
                "permissions": [("use_console", "Can use the debug console")],
            },
        ),
    ]
