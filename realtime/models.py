"""What the permissions and the admin's log are about: nodes and pages, which live in no table."""

from __future__ import annotations

from django.db import models


class Node(models.Model):
    """A sidecar of REALTIME["CONTROL"]."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [("drain_node", "Can send the clients of a node elsewhere")]

    def __str__(self) -> str:
        return "node"


class Console(models.Model):
    """The debug console."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [("use_console", "Can use the debug console")]

    def __str__(self) -> str:
        return "console"


class Monitoring(models.Model):
    """The monitoring pages and what the operator does on them."""

    class Meta:
        managed = False
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
    """What was sampled in a second, minute, hour or day (realtime/stats/windows.py); at most 2,700 rows."""

    id = models.BigIntegerField(primary_key=True)
    size = models.IntegerField()
    """In seconds."""
    number = models.BigIntegerField()
    """Since 1970."""
    values = models.BinaryField()
    """Per name four little-endian doubles: count, mean, sum of squared differences, maximum."""

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["size", "number"], name="realtime_statistics")]

    def __str__(self) -> str:
        return f"{self.size} s from {self.size * self.number} on"
