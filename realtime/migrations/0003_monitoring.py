"""The permissions to see the monitoring pages and to operate on them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("realtime", "0002_console")]

    operations = [
        migrations.CreateModel(
            name="Monitoring",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "managed": False,
                "default_permissions": (),
                "permissions": [
                    ("view_monitoring", "Can see the monitoring pages and read the statistics"),
                    ("operate_monitoring", "Can disconnect and trace clients, and publish test messages"),
                ],
            },
        ),
    ]
