"""A right that is taken back is seen whatever a migration does, and also while triggers are missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import django
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from entitlement import tokens
from entitlement.following import polling, triggers
from entitlement.models import Generation, Rule
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.entitlement.watched import SUBJECT, Watched, node, running
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

__all__ = ["node", "running"]


pytestmark = pytest.mark.django_db(transaction=True)

STEP = """
from django.contrib.auth.models import User
from django.db import connection, migrations, models
from tests.entitlement.following import test_migrating as seen

def fails(apps, schema_editor):
    raise RuntimeError("a data migration that went wrong")

def deactivates(apps, schema_editor):
    User.objects.filter(username="bob").update(is_active=False)

def looks(apps, schema_editor):
    seen.PRESENT.append(seen.triggers.present(connection))

def alters(apps, schema_editor):
    User = apps.get_model("auth", "User")
    before = User._meta.get_field("username")
    longer = models.CharField(max_length=151, unique=True)
    longer.set_attributes_from_name("username")
    longer.model = User
    schema_editor.alter_field(User, before, longer)
    deactivates(apps, schema_editor)
    schema_editor.alter_field(User, longer, before)

def executes(apps, schema_editor):
    if connection.vendor == "postgresql":
        there = "ALTER TABLE auth_user ALTER COLUMN username TYPE varchar(151)"
        back = "ALTER TABLE auth_user ALTER COLUMN username TYPE varchar(150)"
    else:
        there = "ALTER TABLE auth_user RENAME COLUMN username TO called"
        back = "ALTER TABLE auth_user RENAME COLUMN called TO username"
    schema_editor.execute(there)
    schema_editor.execute(back)
    deactivates(apps, schema_editor)

def adds(apps, schema_editor):
    # SQLite makes the table anew for a constraint, without its triggers.
    User = apps.get_model("auth", "User")
    named = models.CheckConstraint(**{{seen.CONDITION: ~models.Q(username="")}}, name="has_a_name")
    schema_editor.add_constraint(User, named)
    deactivates(apps, schema_editor)
    schema_editor.remove_constraint(User, named)

class Migration(migrations.Migration):
    dependencies = [("sessions", "{before}")]
    atomic = {atomic}
    operations = [{operations}]
"""

LONGER = 'migrations.AlterField("session", "session_key", models.CharField(max_length=41, primary_key=True))'
FAILS = "migrations.RunPython(fails, migrations.RunPython.noop)"
LOOKS = "migrations.RunPython(looks, migrations.RunPython.noop)"

CONDITION = "condition" if django.VERSION >= (5, 1) else "check"
"""What a constraint's rule is called."""

ATOMIC = [True, False] if connection.features.can_rollback_ddl else [False]
"""Whether code that alters tables runs in a transaction: on MariaDB Django refuses that."""

PRESENT: list[dict[str, str]] = []
"""What triggers the migrations saw."""


class Steps:
    """Migrations of the app that has the sessions, in a package of their own."""

    def __init__(self, folder: Path, settings: Any) -> None:
        self._folder = folder / "steps_of_sessions"
        self._folder.mkdir()
        (self._folder / "__init__.py").touch()
        first = "import importlib\nMigration = importlib.import_module('{}').Migration\n"
        (self._folder / "0001_initial.py").write_text(first.format("django.contrib.sessions.migrations.0001_initial"))
        self._last = "0001_initial"
        settings.MIGRATION_MODULES = {"sessions": self._folder.name}

    def add(self, *operations: str, atomic: bool = True) -> Self:
        """One more migration."""
        name = f"{int(self._last[:4]) + 1:04}_step"
        text = STEP.format(before=self._last, atomic=atomic, operations=", ".join(operations))
        (self._folder / f"{name}.py").write_text(text)
        self._last = name
        return self

    def migrate(self, *to: str) -> None:
        """As the command does."""
        call_command("migrate", "sessions", *to, verbosity=0)


@pytest.fixture
def steps(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """None but the first yet; all are taken back."""
    monkeypatch.syspath_prepend(tmp_path)
    PRESENT.clear()
    made = Steps(tmp_path, settings)
    yield made
    made.migrate("0001")
    settings.MIGRATION_MODULES = {}
    call_command("migrate", verbosity=0)
    for name in [name for name in sys.modules if name.startswith("steps_of_sessions")]:
        del sys.modules[name]


FAILING: dict[str, Callable[[Steps], object]] = {
    "data": lambda steps: steps.add(FAILS),
    "after an alteration": lambda steps: steps.add(LONGER, FAILS),
    "in a later migration": lambda steps: steps.add(LONGER).add(FAILS),
    "without a transaction": lambda steps: steps.add(LONGER, FAILS, atomic=False),
    "in the middle of an alteration": lambda steps: steps.add(
        "migrations.RunSQL('ALTER TABLE django_session DROP COLUMN none_at_all')", atomic=False
    ),
}


@pytest.mark.parametrize("way", FAILING)
def test_after_a_migrate_that_failed(node: Sidecar, steps: Steps, way: str) -> None:
    FAILING[way](steps)
    with Watched(node) as watched:
        with pytest.raises(Exception, match=r"went wrong|none_at_all"):
            steps.migrate()
        watched.all_end()
        assert not triggers.missing(connection), "they did not wait for the agent"


def test_only_what_is_altered_goes_without_triggers(steps: Steps) -> None:
    steps.add(LOOKS, LONGER, LOOKS)
    before = triggers.present(connection)
    at = Generation.objects.get()
    steps.migrate()
    assert [before, before] == PRESENT, "they are back before the next operation"
    assert Generation.objects.get() == at
    assert Generation.objects.get().forgotten == at.forgotten, "nothing has to be sent again"


def test_what_a_migration_itself_changes_is_seen(node: Sidecar, steps: Steps) -> None:
    steps.add(LONGER, "migrations.RunPython(deactivates, migrations.RunPython.noop)", LONGER.replace("41", "42"))
    with Watched(node) as watched:
        steps.migrate()
        assert watched.viewers["bob"].closed() == 4502
        assert watched.viewers["max"].ask("ping")["op"] == "pong"


def test_sql_that_alters_is_a_change_as_well(steps: Steps) -> None:
    there_and_back = "ALTER TABLE django_session RENAME TO other; ALTER TABLE other RENAME TO django_session"
    steps.add(f"migrations.RunSQL('{there_and_back}', migrations.RunSQL.noop)", LOOKS)
    before = triggers.present(connection)
    steps.migrate()
    assert [before] == PRESENT


@pytest.mark.parametrize("code", ["adds", "alters", "executes"])
@pytest.mark.parametrize("atomic", ATOMIC)
def test_code_may_alter_and_what_it_changes_is_seen(node: Sidecar, steps: Steps, code: str, atomic: bool) -> None:
    before = triggers.present(connection)
    steps.add(f"migrations.RunPython({code}, migrations.RunPython.noop)", LOOKS, atomic=atomic)
    with Watched(node) as watched:
        steps.migrate()
        assert watched.viewers["bob"].closed() == 4502
        assert watched.viewers["max"].ask("ping")["op"] == "pong"
    assert [before] == PRESENT


def test_without_triggers_the_tables_are_compared(node: Sidecar, caplog: pytest.LogCaptureFixture) -> None:
    """As after a backup that was restored without them; and they are brought back."""
    with Watched(node) as watched:
        triggers.remove(connection)
        watched.all_end()
        until(lambda: watched.control.stats()["triggers_missing"] == 0 and not triggers.missing(connection), 15)
        Rule.objects.create(user=watched.users["zoe"], pattern=SUBJECT)
        watched.viewers["zoe"].started(SUBJECT)
    assert "triggers are missing (" in caplog.text


def test_missing_triggers_are_told(node: Sidecar, caplog: pytest.LogCaptureFixture) -> None:
    with Watched(node) as watched:
        assert watched.control.health() == {"ready": True, "reasons": {}}
        triggers.remove(connection, ["auth_user"])
        count = len(triggers.missing(connection))
        until(lambda: watched.control.stats()["triggers_missing"] == count)
        until(lambda: watched.control.stats()["rights_followed"] == 1)
        until(lambda: watched.control.health()["ready"])  # they are followed all the same


@pytest.mark.parametrize(
    ("since", "look", "late"),
    [(0.0, 0.0, ""), (0.5, 0.01, ""), (0.0, 0.25, ""), (0.0, 0.3, "1.1 s"), (0.9, 0.01, "1.2 s"), (3.0, 1.0, "3.3 s")],
)
def test_when_comparing_tables_is_not_within_the_second(since: float, look: float, late: str) -> None:
    """From when on the last look began, and how long it took."""
    assert polling.comparing_late(since, look).endswith(late and f"a change may take {late}")


@pytest.mark.slow
def test_tables_that_take_long_to_compare_are_told(node: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is not ready from the first look on, and is when the triggers are back."""
    with Watched(node) as watched:
        assert watched.control.health()["ready"]
        monkeypatch.setattr(polling, "FOLLOWED_SECONDS", 0.0)  # as if each look took a second
        until(lambda: watched.control.health()["ready"])
        triggers.remove(connection, ["auth_user"])
        reason = until(lambda: watched.control.health()["reasons"].get("rights"))
        assert "triggers are missing, and comparing the tables takes long" in reason
        until(lambda: not triggers.missing(connection), 15)
        until(lambda: watched.control.health()["ready"])


def test_a_row_that_no_driver_can_read_stops_no_look(node: Sidecar) -> None:
    """While triggers are missing the tables are compared, and in one of them there is a date that is none."""
    with Watched(node) as watched:
        bad = Rule.objects.create(everyone=True, pattern="/bad/*")
        with connection.cursor() as cursor:
            value = {"sqlite": "'2026-13-45 00:00:00'", "postgresql": "'infinity'"}.get(connection.vendor, "NULL")
            cursor.execute(f"UPDATE entitlement_rule SET valid_until = {value} WHERE id = {bad.pk}")  # noqa: S608
        triggers.remove(connection)
        watched.all_end()
        until(lambda: "rights" not in watched.control.health()["reasons"])  # a busy machine takes long to compare


def test_rules_from_before_the_check_stay_and_migrate_goes_on(node: Sidecar) -> None:
    """Also after the migration that brings the check each other change of rights is followed."""
    with Watched(node) as watched:
        call_command("migrate", "entitlement", "0007", verbosity=0)
        try:
            bad = Rule.objects.bulk_create([Rule(everyone=True, pattern="orders/**", effect="deny")])[0]
        finally:
            call_command("migrate", "entitlement", verbosity=0)
        assert Rule.objects.filter(pattern="orders/**").exists()
        with pytest.raises(IntegrityError), transaction.atomic():
            Rule.objects.bulk_create([Rule(everyone=True, pattern="orders/**")])
        warnings = until(lambda: watched.control.health().get("warnings", {}).get("rights"))
        assert warnings == (
            f"left out, as they cannot be read: rule {bad.pk} (no leading slash); 1 of them may have denied something"
        )
        watched.all_end()
        Rule.objects.filter(pk=bad.pk).delete()
        until(lambda: "warnings" not in watched.control.health())


def test_who_was_changed_while_nobody_looked_is_sent_as_they_are(node: Sidecar) -> None:
    bob = User.objects.create_user("bob")
    Rule.objects.create(user=bob, pattern=SUBJECT)
    token = tokens.mint(bob)[0]
    triggers.remove(connection)
    try:
        User.objects.update(is_active=False)
        with Viewer(node.client_url, token) as viewer, RunningAgent(node.control):
            assert viewer.closed() == 4502
    finally:
        triggers.install(connection)


def test_a_database_that_cannot_be_read_is_told(node: Sidecar) -> None:
    def run(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    with Watched(node) as watched:
        run("ALTER TABLE entitlement_generation RENAME TO away")
        try:
            reason = until(lambda: watched.control.health()["reasons"].get("rights"))
        finally:
            run("ALTER TABLE away RENAME TO entitlement_generation")
        # On MariaDB who looks for what no trigger saw reads the generation, too.
        assert "the database cannot be read" in reason or "Django cannot look for changes" in reason
        assert "entitlement_generation" in reason
        until(lambda: watched.control.health()["ready"])
        assert watched.control.stats()["rights_followed"] == 1
