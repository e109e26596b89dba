"""What the permissions and the admin's log are about: nodes and pages, which live in no table."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy


class Node(models.Model):
    """A sidecar of REALTIME["CONTROL"]."""

    class Meta:
        managed = False
        verbose_name = gettext_lazy("node")
        default_permissions = ()
        permissions = [("drain_node", "Can send the clients of a node elsewhere")]

    def __str__(self) -> str:
        return "node"


class Console(models.Model):
    """The debug console."""

    class Meta:
        managed = False
        verbose_name = gettext_lazy("console")
        default_permissions = ()
        permissions = [("use_console", "Can use the debug console")]

    def __str__(self) -> str:
        return "console"


class Monitoring(models.Model):
    """The monitoring pages and what the operator does on them."""

    class Meta:
        managed = False
        verbose_name = gettext_lazy("monitoring")
        default_permissions = ()
        permissions = [
            ("view_monitoring", "Can see the monitoring pages and read the statistics"),
            ("operate_monitoring", "Can disconnect and trace clients, and publish test messages"),
        ]

    def __str__(self) -> str:
        return "monitoring"


class StatisticsState(models.Model):
    """One row: who collects the statistics, how far they go, and what the buckets' columns are."""

    holder = models.CharField(max_length=200)
    beat = models.BigIntegerField()
    """Rises with each save, so that others see that the holder lives."""
    through = models.BigIntegerField()
    """The last second, since 1970, that is part of the buckets; -1: none."""
    names = models.JSONField()
    nodes = models.JSONField()
    """Per node: which of its processes told samples, and what added to a sample's number makes the second."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"statistics until {self.through}"


class StatisticsBucket(models.Model):
    """The samples of a second, minute, hour or day (realtime/stats/windows.py); at most 2,700 rows."""

    id = models.BigIntegerField(primary_key=True)
    size = models.IntegerField()
    """Seconds of the bucket."""
    number = models.BigIntegerField()
    """Number of the bucket since 1970."""
    values = models.BinaryField()
    """Per name four little-endian doubles: count, mean, sum of squared differences, maximum."""

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["size", "number"], name="realtime_statistics")]

    def __str__(self) -> str:
        return f"{self.size} s from {self.size * self.number} on"


class OutboxState(models.Model):
    """One row: who sends what is in the outbox, under which numbers, and how much of it was sent."""

    holder = models.CharField(max_length=200)
    beat = models.BigIntegerField()
    """Rises with each change, so that others see that the holder lives."""
    publisher = models.CharField(max_length=100)
    """The name that the messages are numbered under (protocol.md 3.7)."""
    number = models.BigIntegerField()
    """The last number that was given to a message."""
    pending = models.JSONField()
    """``[row, number]`` of each message that may have been sent, and of which it is not known what came of it."""
    sent = models.BigIntegerField()
    refused = models.BigIntegerField()
    retries = models.BigIntegerField()
    """Number of times that messages had to wait after they were sent, since no sidecar took them."""

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"outbox, {self.sent} sent"


class OutboxMessage(models.Model):
    """A message that a committed transaction has published: it waits to be sent, or was set aside when refused."""

    subject = models.CharField(gettext_lazy("subject"), max_length=512)
    message = models.BinaryField()
    """``[subject, content, fields, meta]`` as MessagePack (protocol.md 6.2)."""
    size = models.IntegerField(gettext_lazy("size"))
    """Bytes of content and fields."""
    created = models.DateTimeField(gettext_lazy("created"), default=timezone.now)
    position = models.BigIntegerField(null=True)
    """The place of its commit: given at that by a trigger on PostgreSQL, else null, as ids are in that order."""
    code = models.CharField(gettext_lazy("code"), max_length=40, default="", blank=True)
    """Code for which the message was refused; empty: it waits."""
    reason = models.CharField(gettext_lazy("reason"), max_length=500, default="", blank=True)
    refused = models.DateTimeField(gettext_lazy("refused"), null=True)

    class Meta:
        default_permissions = ("view", "change", "delete")
        verbose_name = gettext_lazy("outbox message")
        verbose_name_plural = gettext_lazy("outbox messages")
        indexes = [
            models.Index(fields=["position", "id"], condition=models.Q(code=""), name="realtime_outbox_order"),
        ]

    def __str__(self) -> str:
        return self.subject
