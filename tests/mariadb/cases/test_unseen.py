"""What fires no trigger takes rights back all the same: TRUNCATE, and foreign keys by which the database deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.checks import run_checks
from django.db import connection

from entitlement.following import compiler, mariadb, polling, triggers
from entitlement.models import Change, Generation, Rule
from tests.support.entitlement.watched import SUBJECT, Watched, node, running
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

__all__ = ["node", "running"]

pytestmark = pytest.mark.django_db(transaction=True)


def _run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def _looked_after(node: Sidecar) -> Iterator[Watched]:
    """Whose agent has begun to look, at which it has all rules sent."""
    before = Generation.objects.get().forgotten
    with Watched(node) as watched:
        until(lambda: Generation.objects.get().forgotten > before, 60)
        yield watched


TABLES: dict[str, Callable[[Watched], object]] = {
    "entitlement_rule": lambda watched: [viewer.revoked(SUBJECT) for viewer in watched.viewers.values()],
    "auth_user_groups": lambda watched: [viewer.revoked(SUBJECT) for viewer in watched.viewers.values()],
    "django_session": lambda watched: [viewer.closed() for viewer in watched.viewers.values()],
    "entitlement_change": lambda watched: [viewer.closed() for viewer in watched.viewers.values()],
    "auth_user": lambda watched: [viewer.closed() for viewer in watched.viewers.values()],
}


@pytest.mark.parametrize("table", TABLES)
def test_an_emptied_table(node: Sidecar, table: str) -> None:
    with _looked_after(node) as watched:
        _run("SET foreign_key_checks = 0", f"TRUNCATE {table}", "SET foreign_key_checks = 1")
        TABLES[table](watched)


def test_deleted_rows_are_no_emptied_table(node: Sidecar) -> None:
    """Nothing is sent anew, and nobody else has to sign in again."""
    with _looked_after(node) as watched:
        before = Generation.objects.get()
        watched.session.flush()
        assert watched.viewers["eve"].closed() == 4502
        watched.rule.delete()
        watched.viewers["zoe"].revoked(SUBJECT)
        Rule.objects.create(user=watched.users["zoe"], pattern=SUBJECT)
        watched.viewers["zoe"].started(SUBJECT)
        assert watched.viewers["bob"].ask("ping")["op"] == "pong"
        assert Generation.objects.get().forgotten == before.forgotten


class Steps:
    """In place of the event that ends a poll: between two looks the next thing happens."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = [*steps]
        self._ended = False

    def is_set(self) -> bool:
        return self._ended

    def wait(self, timeout: float | None = None) -> bool:
        if self._steps:
            self._steps.pop(0)()
        else:
            self._ended = True
        return self._ended


def _position() -> int:
    found = compiler.position()
    assert found is not None
    return found.generation


def _noted_after(generation: int) -> set[tuple[str, str]]:
    return set(Change.objects.filter(generation__gt=generation).values_list("kind", "key"))


def test_it_is_seen_at_whatever_moment_of_a_look_it_happens() -> None:
    """Before each of its queries."""
    user = User.objects.create_user("ann")
    own = connection.copy()

    def look_with(moment: int) -> tuple[int, set[tuple[str, str]]]:
        """The number of queries, and what was noted when the table was emptied before this one."""
        count, counts, at = 0, False, compiler.position()
        assert at is not None

        def step() -> None:
            nonlocal counts
            counts = True

        def stop_counting() -> None:
            nonlocal counts
            counts = False

        def execute(run: Callable[..., Any], *arguments: Any) -> Any:
            nonlocal count
            if counts:
                count += 1
                if count == moment:
                    with own.cursor() as cursor:
                        cursor.execute("TRUNCATE django_session")
            return run(*arguments)

        with connection.execute_wrapper(execute):
            polling.Poll(Steps(step, stop_counting, lambda: None)).run()
        return count, _noted_after(at.generation)

    try:
        moment, queries = 0, 0
        while moment <= queries:
            SessionStore().create()
            queries, noted = look_with(moment)
            assert (("password", str(user.pk)) in noted) == (moment > 0), f"before query {moment} of {queries}"
            moment += 1
        assert queries > 10
    finally:
        own.close()


def test_what_hides_from_the_looks_is_found_when_the_tables_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows by which an emptied table is told were deleted just before; so only the other one shows it."""
    monkeypatch.setattr(polling, "COPY_SECONDS", 0.0)
    monkeypatch.setattr(polling, "COPY_SHARE", 0)
    first, middle, last = (Rule.objects.create(everyone=True, pattern=f"/a/{number}") for number in range(3))

    at: list[compiler.Position | None] = []

    def empty() -> None:
        at.append(compiler.position())
        Rule.objects.filter(pk__in=(first.pk, last.pk)).delete()
        _run("TRUNCATE entitlement_rule")

    polling.Poll(Steps(empty)).run()
    [before] = at
    assert before is not None
    assert Generation.objects.get().forgotten == before.forgotten, "it was not seen to be emptied"
    assert ("rule", str(middle.pk)) in _noted_after(before.generation)


def test_a_log_that_is_emptied_before_anybody_saw_what_was_in_it() -> None:
    """The very first note may be lost: so there is one before it."""
    user = User.objects.create_user("ann")
    Change.objects.all().delete()

    at: list[compiler.Position | None] = []

    def lose() -> None:
        at.append(compiler.position())
        User.objects.update(is_active=False)
        _run("TRUNCATE entitlement_change")

    polling.Poll(Steps(lose)).run()
    [before] = at
    assert before is not None
    assert {("user", str(user.pk)), ("password", str(user.pk))} <= _noted_after(before.generation)
    assert Generation.objects.get().forgotten > before.generation


def _a_member(*groups: str) -> tuple[User, dict[str, Group]]:
    user = User.objects.create_user("ann")
    made = {name: Group.objects.create(name=name) for name in groups}
    user.groups.add(*made.values())
    return user, made


def test_what_is_emptied_right_behind_another_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look itself has noted of a user, whom the agents have read since, says nothing of the next TRUNCATE."""
    user, _ = _a_member("a")
    Rule.objects.create(user=user, pattern="/a/b")
    at: list[int] = []
    note = polling.note_emptied

    def empty_behind(*arguments: Any) -> int:
        noted = note(*arguments)
        at.append(_position())
        if len(at) == 1:
            _run("TRUNCATE auth_user_groups")
        return noted

    monkeypatch.setattr(polling, "note_emptied", empty_behind)
    polling.Poll(Steps(lambda: _run("TRUNCATE entitlement_rule"), lambda: None, lambda: None)).run()
    assert ("user", str(user.pk)) in _noted_after(at[0])


def test_looks_alone_note_nothing() -> None:
    Rule.objects.create(everyone=True, pattern="/a/b")
    user = User.objects.create_user("ann")
    at: list[int] = []

    def begun() -> None:
        at.append(Generation.objects.get().forgotten)

    def churn() -> None:
        Rule.objects.all().delete()
        Rule.objects.create(everyone=True, pattern="/a/c")
        User.objects.filter(pk=user.pk).delete()

    before = _position()
    polling.Poll(Steps(begun, lambda: None, churn, lambda: None, churn)).run()
    assert Generation.objects.get().forgotten == at[0]
    assert not Change.objects.filter(kind=Change.Kind.PASSWORD, generation__gt=before).exists()


@pytest.fixture
def cascades() -> Iterator[list[str]]:
    """The database deletes the memberships and rules of a group."""
    back, names = [], []
    with connection.cursor() as cursor:
        for table in ("auth_user_groups", "entitlement_rule"):
            for name, one in connection.introspection.get_constraints(cursor, table).items():
                if one["foreign_key"] == ("auth_group", "id"):
                    drop = f"ALTER TABLE {table} DROP FOREIGN KEY {name}"
                    make = (
                        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY (group_id) REFERENCES auth_group (id)"
                    )
                    back += [drop, make]
                    names.append(f"{table}.{name} (ON DELETE CASCADE)")
                    _run(drop, f"{make} ON DELETE CASCADE")
    yield names
    _run(*back)


def test_a_cascade_of_the_database(cascades: list[str], node: Sidecar) -> None:
    assert [*mariadb.cascades(connection, triggers.watched_rows(connection))] == cascades
    [warning] = [found for found in run_checks(databases=["default"]) if found.id.startswith("entitlement.")]
    assert (warning.id, all(name in warning.msg for name in cascades)) == ("entitlement.W006", True)
    with _looked_after(node) as watched:
        _run("DELETE FROM auth_group")
        for viewer in watched.viewers.values():
            viewer.revoked(SUBJECT)
        assert watched.viewers["bob"].ask("ping")["op"] == "pong", "nobody has to sign in again"


def test_cascades_right_behind_each_other(cascades: list[str]) -> None:
    """Whatever else was noted of the user, by the look before or by a trigger, and read by an agent."""
    assert cascades
    user, groups = _a_member("a", "b", "c")
    at: list[int] = []
    noted: list[set[str]] = []

    def look_back() -> None:
        """Before the next look: of each key the log keeps the last note alone."""
        found = Change.objects.filter(generation__gt=at[-1], generation__lte=_position(), key=str(user.pk))
        noted.append({*found.values_list("kind", flat=True)})

    def delete(name: str) -> None:
        if at:
            look_back()
        at.append(_position())
        _run(f"DELETE FROM auth_group WHERE id = {groups[name].pk}")  # noqa: S608 - a number

    def delete_behind_a_change() -> None:
        look_back()
        User.objects.filter(pk=user.pk).update(is_active=False)
        at.append(_position())
        _run(f"DELETE FROM auth_group WHERE id = {groups['c'].pk}")  # noqa: S608 - a number

    polling.Poll(Steps(lambda: delete("a"), lambda: delete("b"), delete_behind_a_change)).run()
    look_back()
    assert ["user" in kinds for kinds in noted] == [True] * 3
