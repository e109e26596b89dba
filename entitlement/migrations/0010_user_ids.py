"""The check of what a rule is takes {user_id} as well; rows that are there already stay, and are named."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

from entitlement.patterns import readable

before = import_module("entitlement.migrations.0009_readable_rules")


class Migration(migrations.Migration):
    dependencies = [("entitlement", "0009_readable_rules")]

    operations = [
        migrations.RemoveConstraint(model_name="rule", name="entitlement_rule_can_be_read"),
        before.AddConstraintForNewRows(
            model_name="rule",
            constraint=models.CheckConstraint(
                condition=readable(["subscribe", "publish", "both"], ["allow", "deny"]),
                name="entitlement_rule_can_be_read",
                violation_error_message="Nobody can decide by this rule: see its pattern and action.",
            ),
        ),
    ]
