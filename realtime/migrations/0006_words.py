"""What the admin calls the models, in every language; no table changes."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("realtime", "0005_outbox"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="console",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [("use_console", "Can use the debug console")],
                "verbose_name": "console",
            },
        ),
        migrations.AlterModelOptions(
            name="monitoring",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [
                    ("view_monitoring", "Can see the monitoring pages and read the statistics"),
                    ("operate_monitoring", "Can disconnect and trace clients, and publish test messages"),
                ],
                "verbose_name": "monitoring",
            },
        ),
        migrations.AlterModelOptions(
            name="node",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [("drain_node", "Can send the clients of a node elsewhere")],
                "verbose_name": "node",
            },
        ),
        migrations.AlterModelOptions(
            name="outboxmessage",
            options={
                "default_permissions": ("view", "change", "delete"),
                "verbose_name": "outbox message",
                "verbose_name_plural": "outbox messages",
            },
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="code",
            field=models.CharField(blank=True, default="", max_length=40, verbose_name="code"),
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="created",
            field=models.DateTimeField(default=django.utils.timezone.now, verbose_name="created"),
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="reason",
            field=models.CharField(blank=True, default="", max_length=500, verbose_name="reason"),
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="refused",
            field=models.DateTimeField(null=True, verbose_name="refused"),
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="size",
            field=models.IntegerField(verbose_name="size"),
        ),
        migrations.AlterField(
            model_name="outboxmessage",
            name="subject",
            field=models.CharField(max_length=512, verbose_name="subject"),
        ),
    ]
