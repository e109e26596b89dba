"""A user model with a UUID key, an e-mail address for a name, and columns of other names."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, Group
from django.db import models


class Person(AbstractBaseUser):
    """Has groups of its own naming, and no permissions."""

    key = models.UUIDField(primary_key=True, default=uuid.uuid4, db_column="person key")
    email = models.EmailField(unique=True, db_column="address")
    is_active = models.BooleanField(default=True, db_column="may_work")
    is_superuser = models.BooleanField(default=False)
    crews = models.ManyToManyField(Group, related_name="crew_members", db_table="crew membership")

    USERNAME_FIELD = "email"
    objects = BaseUserManager()

    class Meta:
        db_table = "staff"
