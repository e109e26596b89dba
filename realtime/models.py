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
