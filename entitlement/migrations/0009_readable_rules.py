"""The database refuses a rule that no sidecar could read; rows that are there already stay, and are named."""

from typing import Any

from django.conf import settings
from django.db import migrations, models

from entitlement.patterns import readable

MYSQL = "mysql"


class AddConstraintForNewRows(migrations.AddConstraint):
    """Adds a check to which rows that are there already are not held until they change."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """PostgreSQL has NOT VALID for that; SQLite and MariaDB look at no check while they copy the table.

        MySQL has neither: where a row is in its way the check is there, and is not enforced.
        """
        connection = schema_editor.connection
        around = {"sqlite": ("PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF")}
        if connection.vendor == MYSQL and connection.mysql_is_mariadb:
            around[MYSQL] = ("SET SESSION check_constraint_checks = 0", "SET SESSION check_constraint_checks = 1")
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        if connection.vendor in around:
            before, after = around[connection.vendor]
            schema_editor.execute(before)
            try:
                super().database_forwards(app_label, schema_editor, from_state, to_state)
            finally:
                schema_editor.execute(after)
            return
        more = ""
        if connection.vendor == "postgresql":
            more = " NOT VALID"
        elif model._base_manager.using(connection.alias).exclude(self.constraint.condition).exists():
            more = " NOT ENFORCED"
        schema_editor.execute(f"{self.constraint.create_sql(model, schema_editor)}{more}", params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("entitlement", "0008_notes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddConstraintForNewRows(
            model_name="rule",
            constraint=models.CheckConstraint(
                condition=readable(["subscribe", "publish", "both"], ["allow", "deny"], ["{username}"]),
                name="entitlement_rule_can_be_read",
                violation_error_message="Nobody can decide by this rule: see its pattern and action.",
            ),
        ),
    ]
