"""Changes in the database reach live connections through a real sidecar."""

from __future__ import annotations

import io
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.core.management.color import no_style
from django.core.management.sql import sql_flush
from django.db import connection
from django.test import Client
from django.utils import timezone
from websockets.exceptions import ConnectionClosed

from entitlement import conf, tokens
from entitlement.following import compiler
from entitlement.following.agent import follow
from entitlement.models import Change, Generation, Rule, SubjectOptions
from fastpath.client.control.client import Control
from fastpath.client.errors import SidecarUnavailable
from realtime.models import StatisticsState
from tests.chaos.faults_starved import starve
from tests.support.databases import unchecked
from tests.support.entitlement.changes import empty_log
from tests.support.entitlement.live import RunningAgent, Viewer
from tests.support.promises import kept
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

SUBJECT = "/stocks/us/AAPL"

STARVED_SECONDS = 12.0
"""Longer than an agent may be silent, and than its questions and the collector's wait."""

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Sidecar]:
    """A sidecar in mode ``rules`` that trusts this project's tokens."""
    with Sidecar(mode="rules", token_secret=conf.token_secret()) as sidecar:
        yield sidecar


@pytest.fixture
def carrier(running: Sidecar, settings: Any) -> Sidecar:
    """It, with the rights of the test before: the generation only rises, so that one that is followed has these."""
    assert not getattr(connection, "is_in_memory_db", bool)(), "the agent's thread needs a database in a file"
    settings.REALTIME = settings.REALTIME | {"CONTROL": running.control}
    return running


@pytest.fixture
def without_rights(carrier: Sidecar) -> Sidecar:
    """It, without any."""
    carrier.kill()
    return carrier.start()


@pytest.fixture
def desk() -> Group:
    """A group that bob is not in, with a rule for the subject."""
    group = Group.objects.create(name="NASDAQ desk")
    Rule.objects.create(group=group, pattern="/stocks/us/*")
    return group


@pytest.fixture
def bob() -> User:
    """A user without rights."""
    return User.objects.create_user("bob", password="demo")


def _generation(sidecar: Sidecar) -> int | None:
    with Control(sidecar.control) as control:
        try:
            return control.hello().get("generation")
        except SidecarUnavailable:
            return None


def _sync(sidecar: Sidecar, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until the sidecar has what the database has."""
    until(lambda: _generation(sidecar) == compiler.position().generation, seconds)


@contextmanager
def following(sidecar: Sidecar) -> Iterator[None]:
    """An agent that has brought this test's rights: those of the test before may be about the same keys."""
    with RunningAgent(sidecar.control):
        _sync(sidecar)
        yield


def _raw(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _post_members(desk: Group, members: list[User]) -> None:
    browser = Client()
    browser.force_login(User.objects.get_or_create(username="admin", is_staff=True, is_superuser=True)[0])
    url = f"/admin/auth/group/{desk.pk}/change/"
    page = browser.get(url)
    data: dict[str, Any] = {"name": desk.name, "members": [user.pk for user in members]}
    for inline in page.context["inline_admin_formsets"]:
        for form in [inline.formset.management_form, *inline.formset.initial_forms]:
            data |= {form.add_prefix(name): form[name].value() for name in form.fields if form[name].value()}
    assert browser.post(url, data).status_code == 302


WAYS: dict[str, tuple[Callable[[User, Group], object], Callable[[User, Group], object]]] = {
    "save and delete": (
        lambda bob, desk: Rule(user=bob, pattern="/stocks/**").save(),
        lambda bob, desk: Rule.objects.get(user=bob).delete(),
    ),
    "bulk_create and QuerySet.delete": (
        lambda bob, desk: Rule.objects.bulk_create([Rule(user=bob, pattern=SUBJECT)]),
        lambda bob, desk: Rule.objects.filter(user=bob).delete(),
    ),
    "QuerySet.update": (
        lambda bob, desk: Rule.objects.update(group=None, everyone=True),
        lambda bob, desk: Rule.objects.update(effect="deny"),
    ),
    "switched off": (
        lambda bob, desk: Rule.objects.update(group=None, everyone=True),
        lambda bob, desk: Rule.objects.update(enabled=False),
    ),
    "raw SQL": (
        lambda bob, desk: _raw("UPDATE entitlement_rule SET group_id = NULL, everyone = true"),
        lambda bob, desk: _raw("DELETE FROM entitlement_rule"),
    ),
    "the user's groups": (lambda bob, desk: bob.groups.add(desk), lambda bob, desk: bob.groups.clear()),
    "the group's members": (
        lambda bob, desk: desk.user_set.add(bob),
        lambda bob, desk: desk.user_set.set([]),
    ),
    "the admin's member list": (
        lambda bob, desk: _post_members(desk, [bob]),
        lambda bob, desk: _post_members(desk, []),
    ),
    "a deleted group": (lambda bob, desk: bob.groups.add(desk), lambda bob, desk: desk.delete()),
    "superuser": (
        lambda bob, desk: User.objects.filter(pk=bob.pk).update(is_superuser=True),
        lambda bob, desk: User.objects.filter(pk=bob.pk).update(is_superuser=False),
    ),
}


def test_a_right_comes_and_goes_in_each_way(carrier):
    """And with it what is published: that somebody else still gets it says that it has been told."""
    root = User.objects.create_superuser("root")
    with ExitStack() as stack:
        stack.enter_context(RunningAgent(carrier.control))
        control = stack.enter_context(Control(carrier.control))
        _sync(carrier)
        other = stack.enter_context(Viewer(carrier.client_url, tokens.mint(root)[0]))
        assert other.subscribe(SUBJECT) == ""
        for way, (grant, revoke) in WAYS.items():
            Rule.objects.all().delete()
            desk = Group.objects.create(name=way)
            Rule.objects.create(group=desk, pattern="/stocks/us/*")
            bob = User.objects.create_user(f"bob by {way}")
            _sync(carrier)
            with Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
                assert viewer.subscribe(SUBJECT) == "denied", way
                grant(bob, desk)
                viewer.started(SUBJECT)
                control.publish([[SUBJECT, f"with {way}"]])
                viewer.got(f"with {way}")
                revoke(bob, desk)
                assert viewer.revoked(SUBJECT), way
                control.publish([[SUBJECT, f"without {way}"]])
                other.got(f"without {way}")
                viewer.ask("ping")
                kept(f"without {way}" not in viewer.contents(), "it was told what it may not see any more")


def test_not_ready_until_the_rules_are_there(without_rights, bob, desk):
    bob.groups.add(desk)
    with Viewer(without_rights.client_url, tokens.mint(bob)[0]) as viewer:
        assert viewer.subscribe(SUBJECT) == "not_ready"
        assert viewer.subscribe("/stocks/ca/SHOP") == "not_ready"
        with RunningAgent(without_rights.control):
            viewer.started(SUBJECT)
            assert viewer.subscribe("/stocks/ca/SHOP") == "denied"


def test_who_connected_before_the_rules_came_is_judged_by_them(without_rights, bob):
    session = SessionStore()
    session.create()
    revoked, kept = tokens.mint(bob, session)[0], tokens.mint(bob)[0]
    session.delete()
    with Viewer(without_rights.client_url, revoked) as viewer, Viewer(without_rights.client_url, kept) as other:
        assert viewer.ask("ping")["op"] == "pong"
        with RunningAgent(without_rights.control):
            assert viewer.closed() == 4502
            assert other.ask("ping")["op"] == "pong"


def test_validity_begins_and_ends_by_itself(carrier, bob):
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == "denied"
        begin = timezone.now().replace(microsecond=0) + timedelta(seconds=1.5)
        Rule.objects.create(user=bob, pattern=SUBJECT, valid_from=begin)
        viewer.started(SUBJECT)
        assert timezone.now() >= begin
        end = timezone.now().replace(microsecond=0) + timedelta(seconds=1.5)
        Rule.objects.update(valid_until=end)
        viewer.revoked(SUBJECT)
        assert timezone.now() >= end


def test_a_renamed_user_reads_the_inbox_of_the_new_name(carrier, bob):
    Rule.objects.create(everyone=True, pattern="/inbox/{username}")
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe("/inbox/bob") == ""
        assert viewer.subscribe("/inbox/robert") == "denied"
        User.objects.filter(pk=bob.pk).update(username="robert")
        viewer.revoked("/inbox/bob")
        viewer.started("/inbox/robert")


def test_explain_asks_the_sidecar(carrier, bob, desk):
    def explain(*arguments: str) -> str:
        out = io.StringIO()
        call_command("entitlement_explain", *arguments, stdout=out)
        return out.getvalue()

    with RunningAgent(carrier.control):
        _sync(carrier)
        assert explain("bob", SUBJECT) == (
            f"bob may not subscribe {SUBJECT}: no rule in force allows it.\n"
            "The sidecar says: denied, no rule allows it.\n"
        )
        bob.groups.add(desk)
        denies = Rule.objects.create(anonymous=True, pattern=SUBJECT, effect="deny")
        _sync(carrier)
        assert explain("bob", SUBJECT).startswith(f"bob may subscribe {SUBJECT}")
        assert explain("bob", SUBJECT, "publish").startswith(f"bob may not publish {SUBJECT}")
        assert explain("-", SUBJECT).startswith(f"Somebody who is not signed in may not subscribe {SUBJECT}")
        assert f"The sidecar says: denied, rule {denies.pk} denies it." in explain("-", SUBJECT)
        assert f" → rule {denies.pk}: deny anonymous to subscribe {SUBJECT}; it decides\n" in explain("-", SUBJECT)


BAD_ROWS = {
    "a rule without its slash": lambda eve: Rule.objects.bulk_create([Rule(everyone=True, pattern="orders/**")]),
    "an unknown effect": lambda eve: Rule.objects.bulk_create([Rule(everyone=True, pattern="/a/b", effect="block")]),
    "a rule by raw SQL": lambda eve: _raw("UPDATE entitlement_rule SET pattern = '/a/**/b' WHERE user_id IS NOT NULL"),
    "options": lambda eve: SubjectOptions.objects.bulk_create([SubjectOptions(pattern="a//b", cache_messages=1)]),
    "a key in the log": lambda eve: Change.objects.create(
        generation=compiler.position().generation + 1, kind="user", key="nobody's", time=2**42
    ),
}
if connection.vendor == "sqlite":  # the others store no such value: here Django itself cannot read the row
    BAD_ROWS |= {
        "options that are no number": lambda eve: _raw(
            "INSERT INTO entitlement_subjectoptions (pattern, conflation_ms, delivery, note) "
            "VALUES ('/a/b', 'soon', '', '')"
        ),
        "a rule until no date": lambda eve: _raw(
            "INSERT INTO entitlement_rule (everyone, anonymous, pattern, action, effect, enabled, note, valid_until) "
            "VALUES (1, 0, '/a/b', 'subscribe', 'allow', 1, '', '2026-13-45 00:00:00')"
        ),
        "a user who joined at no date": lambda eve: _raw(
            "INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff, is_active, "
            "is_superuser, date_joined) VALUES ('odd', '', '', '', '', 0, 1, 0, 'yesterday')"
        ),
    }


def test_rows_that_cannot_be_read_stop_no_change(carrier, bob, desk):
    """Deny, logout and deactivation go on, in front of them and behind them, and with a sidecar that starts anew."""
    eve, max_ = User.objects.create_user("eve"), User.objects.create_user("max")
    desk.user_set.set([bob, eve, max_])
    Rule.objects.create(user=eve, pattern="/eve/*")
    session = SessionStore()
    session.create()
    given = tokens.mint(bob)[0], tokens.mint(eve, session)[0], tokens.mint(max_)[0]
    with ExitStack() as stack:
        control = stack.enter_context(Control(carrier.control))
        with RunningAgent(carrier.control):
            _sync(carrier)
            viewers = [stack.enter_context(Viewer(carrier.client_url, token)) for token in given]
            assert [viewer.subscribe(SUBJECT) for viewer in viewers] == ["", "", ""]
            with unchecked():
                for write in BAD_ROWS.values():
                    write(eve)
            User.objects.filter(pk=bob.pk).update(is_active=False)
            session.delete()
            assert [viewer.closed() for viewer in viewers[:2]] == [4502, 4502]
            Rule.objects.create(everyone=True, pattern=SUBJECT, effect="deny")
            viewers[2].revoked(SUBJECT)
            assert "left out" in until(lambda: control.health().get("warnings", {}).get("rights"))
            assert control.health()["ready"]
    carrier.kill()
    carrier.start()
    with RunningAgent(carrier.control):
        _sync(carrier)
        with Viewer(carrier.client_url, given[2]) as viewer:
            assert viewer.subscribe(SUBJECT) == "denied"
            assert viewer.subscribe("/stocks/us/IBM") == ""
        with Control(carrier.control) as other:
            assert "left out" in other.health()["warnings"]["rights"]


def _flush_by_sql():
    """What ``manage.py sqlflush`` prints, given to the database: no signal of Django's follows."""
    connection.ops.execute_sql_flush(sql_flush(no_style(), connection, reset_sequences=True, allow_cascade=False))


@pytest.mark.parametrize("flush", [lambda: call_command("flush", interactive=False, verbosity=0), _flush_by_sql])
def test_who_was_deleted_with_the_whole_database_is_nobody(carrier, flush):
    """No log tells who had been there: no token of before gives a right, not even to a superuser."""
    root = User.objects.create_superuser("root")
    token = tokens.mint(root)[0]
    with RunningAgent(carrier.control):
        _sync(carrier)
        with Viewer(carrier.client_url, token) as viewer:
            assert viewer.subscribe("/a/b") == ""
            flush()
            assert viewer.closed() == 4502
        until(lambda: compiler.position())
        _sync(carrier)
        again = User.objects.create_superuser("root")
        with pytest.raises(ConnectionClosed), Viewer(carrier.client_url, token) as viewer:
            viewer.ask("ping")
        with Viewer(carrier.client_url, tokens.mint(again)[0]) as viewer:
            assert viewer.subscribe("/a/b") == ""


def test_the_agent_as_a_process(carrier, bob, desk):
    environment = os.environ | {"REALTIME_DATABASE": str(connection.settings_dict["NAME"])}
    command = [sys.executable, "-m", "django", "realtime_agent", "--control", carrier.control]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            _sync(carrier, 60)  # Django has to start
            bob.groups.add(desk)
            _sync(carrier)
        finally:
            process.terminate()
        assert process.wait(3 * PATIENCE_SECONDS) == 0


@pytest.mark.slow
@pytest.mark.parametrize("node_too", [True, False])
def test_an_agent_and_a_collector_that_get_no_cpu_go_on_beside_their_node(bob, desk, tmp_path, node_too):
    """A hundredth of a core for all three, or for the two while their node runs, and then one again: changes of rights
    and statistics are followed as before.

    (tests/test_awake.py has what the node does about its clients meanwhile.)
    """
    bob.groups.add(desk)
    with ExitStack() as stack:
        sidecar = stack.enter_context(Sidecar(mode="rules", token_secret=conf.token_secret()))
        own = {"REALTIME_DATABASE": str(connection.settings_dict["NAME"]), "FASTPATH_CONTROL": sidecar.control}
        own["REALTIME_STATS_DATABASE"] = "default"  # which the test looks into
        log = stack.enter_context((tmp_path / "log").open("w"))
        pids = [sidecar.pid]
        for command in ("realtime_agent", "realtime_collect"):
            argv = [sys.executable, "-m", "django", command]
            process = stack.enter_context(subprocess.Popen(argv, cwd=ROOT, env=os.environ | own, stderr=log))
            stack.callback(process.terminate)
            pids.append(process.pid)
        _sync(sidecar)
        until(lambda: StatisticsState.objects.filter(through__gt=0))
        holder = StatisticsState.objects.get().holder
        viewer = stack.enter_context(Viewer(sidecar.client_url, tokens.mint(bob)[0]))
        assert viewer.subscribe(SUBJECT) == ""
        starve(pids if node_too else pids[1:], STARVED_SECONDS)
        assert viewer.ask("ping")["op"] == "pong"
        control = stack.enter_context(Control(sidecar.control))
        until(lambda: control.health()["ready"])
        bob.groups.clear()
        viewer.revoked(SUBJECT)
        began = StatisticsState.objects.get().through
        collected = until(lambda: StatisticsState.objects.filter(through__gt=began + 5).first(), 30)
        assert collected.holder == holder
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_every_node_is_followed_and_one_that_is_away_delays_no_other(carrier, bob, desk, tmp_path):
    silent = str(tmp_path / "silent.sock")
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(silent)  # takes what it is asked and never answers
        listening.listen(16)
        second = stack.enter_context(Sidecar(mode="rules", token_secret=conf.token_secret()))
        addresses = [silent, carrier.control, str(tmp_path / "none.sock"), second.control]
        stop = threading.Event()
        agents = threading.Thread(target=follow, args=(addresses, stop))
        agents.start()
        stack.callback(agents.join, 10)
        stack.callback(stop.set)
        _sync(carrier)
        _sync(second)
        viewers = [stack.enter_context(Viewer(node.client_url, tokens.mint(bob)[0])) for node in (carrier, second)]
        for viewer in viewers:
            assert viewer.subscribe(SUBJECT) == "denied"
        bob.groups.add(desk)
        for viewer in viewers:
            viewer.started(SUBJECT)
        carrier.kill()
        bob.groups.clear()
        viewers[1].revoked(SUBJECT)
        carrier.start()
        _sync(carrier)


def test_a_killed_sidecar_gets_everything_again(carrier, bob, desk):
    session = SessionStore()
    session.create()
    bob.groups.add(desk)
    with RunningAgent(carrier.control):
        _sync(carrier)
        revoked = tokens.mint(bob, session)[0]
        session.delete()
        bob.groups.clear()
        old = tokens.mint(bob)[0]
        bob.groups.add(desk)
        _sync(carrier)
        for _ in range(2):
            carrier.kill()
            carrier.start()
            _sync(carrier)
            with Viewer(carrier.client_url, old) as viewer:
                assert viewer.subscribe(SUBJECT) == "", "what changed after the token was minted counts"
            with pytest.raises(ConnectionClosed, match="4502"):
                Viewer(carrier.client_url, revoked)


def test_an_agent_that_starts_later_finds_the_set_in_force(carrier, bob, caplog):
    caplog.set_level(logging.INFO, "entitlement.agent")
    for _ in range(2):
        with RunningAgent(carrier.control):
            _sync(carrier)
            until(lambda: "connected to sidecar" in caplog.text)
    assert caplog.text.count("sent all") == 1


def test_a_lower_generation_and_a_forgotten_one_send_everything(carrier, bob):
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == "denied"
        Rule.objects.create(everyone=True, pattern="/stocks/**")
        viewer.started(SUBJECT)
        # As after a restored backup: neither the rule's end nor a rise of the generation is in the log.
        _raw("DELETE FROM entitlement_rule")
        empty_log()
        Generation.objects.update(value=1000)
        viewer.revoked(SUBJECT)
        # As after a migration, or an agent that was away for long: the log does not reach back.
        Rule.objects.create(everyone=True, pattern="/stocks/**")
        empty_log()
        Generation.objects.update(value=2000, forgotten=2000)
        viewer.started(SUBJECT)


def test_a_large_change_comes_as_a_full_set(carrier, bob, caplog):
    caplog.set_level(logging.INFO, "entitlement.agent")
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == "denied"
        Rule.objects.bulk_create(
            [Rule(everyone=True, pattern=f"/a/{n}") for n in range(2100)] + [Rule(everyone=True, pattern=SUBJECT)]
        )
        viewer.started(SUBJECT)
    assert "sent all 2101 rules" in caplog.text


def test_many_changes_of_users_come_in_parts(carrier, bob, caplog):
    """And a right that ends right after them does not wait for them; all is sent anew only to a node that was lost."""
    caplog.set_level(logging.INFO, "entitlement.agent")
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        rule = Rule.objects.create(everyone=True, pattern="/stocks/**")
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == ""
        User.objects.bulk_create(User(username=f"many{number}") for number in range(6000))
        rule.delete()
        viewer.revoked(SUBJECT)
        _sync(carrier)
    lost = caplog.text.count("trying again")
    assert caplog.text.count("sent all") <= 1 + lost, caplog.text


def test_the_agent_outlives_faults_of_the_database(carrier, bob, caplog):
    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == "denied"
        _raw("ALTER TABLE entitlement_generation RENAME TO away")
        try:
            until(lambda: "the database cannot be read" in caplog.text)
        finally:
            _raw("ALTER TABLE away RENAME TO entitlement_generation")
        Rule.objects.create(everyone=True, pattern="/stocks/**")
        viewer.started(SUBJECT)
    assert caplog.text.count("the database cannot be read") == 1, "said once, not five times a second"


def test_without_a_sidecar_the_agent_says_so_once_and_stops_when_told(tmp_path, caplog):
    with RunningAgent(str(tmp_path / "none.sock")):
        until(lambda: "the sidecar cannot be reached" in caplog.text)
    assert caplog.text.count("the sidecar cannot be reached") == 1


def test_options_take_force_while_messages_flow(carrier, bob):
    """Added, changed and deleted, by a save and by raw SQL; a client is told of its interval."""
    Rule.objects.create(everyone=True, pattern="/stocks/**")

    def cached() -> int:
        with Control(carrier.control) as control:
            control.publish([[SUBJECT, "x"]])
            return int(control.subject(SUBJECT)["cached"])

    def stands() -> tuple[Any, int]:
        """The content of the snapshot, and the position."""
        with Control(carrier.control) as control:
            found = control.subject(SUBJECT)
        return found["snapshot"] and found["snapshot"]["content"], found["seq"]

    def interval(viewer: Viewer, wanted: int) -> None:
        viewer.told(
            lambda frame: (
                isinstance(frame, dict)
                and frame["op"] == "subscribed"
                and frame["results"][0].get("conflation", 0) == wanted
            ),
            10,
        )

    with following(carrier), Viewer(carrier.client_url, tokens.mint(bob)[0]) as viewer:
        _sync(carrier)
        assert viewer.subscribe(SUBJECT) == ""
        until(lambda: cached() >= 5)
        SubjectOptions.objects.create(pattern="/stocks/**", cache_messages=2)
        until(lambda: cached() == 2)
        row = SubjectOptions.objects.create(pattern=SUBJECT, conflation_ms=500)
        interval(viewer, 500)
        SubjectOptions.objects.filter(pk=row.pk).update(conflation_ms=700)
        interval(viewer, 700)
        assert stands()[0] == "x"
        row.delivery, row.retained = "standard", False
        row.save()
        until(lambda: stands()[0] is None)
        before = stands()[1]
        assert (cached(), stands()) == (2, (None, before))
        _raw("DELETE FROM entitlement_subjectoptions")
        interval(viewer, 0)
        until(lambda: cached() >= 5)


def test_in_another_mode_options_alone_are_followed(bob):
    """Whoever decides about rights; what else changes is not sent, nor is it in the way."""
    Rule.objects.create(everyone=True, pattern="/stocks/**")
    SubjectOptions.objects.create(pattern="/stocks/**", cache_messages=2)
    with Sidecar(mode="none") as sidecar, RunningAgent(sidecar.control), Control(sidecar.control) as control:

        def cached() -> int:
            control.publish([[SUBJECT, "x"]])
            return int(control.subject(SUBJECT)["cached"])

        until(lambda: control.hello()["generation"] is not None)
        assert [cached(), cached(), cached()] == [1, 2, 2]
        Rule.objects.create(user=bob, pattern="/other/**")
        row = SubjectOptions.objects.create(pattern=SUBJECT, cache_messages=1)
        until(lambda: cached() == 1)
        row.delete()
        until(lambda: cached() == 2)
        sidecar.kill()
        sidecar.start()
        control.close()
        until(lambda: control.hello()["generation"] == compiler.position().generation)
        assert [cached(), cached(), cached()] == [1, 2, 2]


def test_options_that_an_agent_of_an_older_version_left_out_are_sent(carrier):
    """It runs beside a newer one, or until that starts, and the generation is in force by its word."""
    with RunningAgent(carrier.control):
        _sync(carrier)
    with Control(carrier.control) as older:

        def counts() -> int:
            return int(older.subject(SUBJECT)["options"]["cache_messages"])

        older.publish([[SUBJECT, "x"]])
        SubjectOptions.objects.create(pattern="/stocks/**", cache_messages=2)
        generation = compiler.position().generation
        older.call("rules_diff", {"after": older.hello()["generation"], "generation": generation})
        assert counts() != 2
        with RunningAgent(carrier.control):
            until(lambda: counts() == 2)
            older.rules_begin(generation)
            older.call("rules_chunk", {"rules": []})
            older.rules_commit(generation)
            until(lambda: counts() == 2 and older.hello()["options"])
            # An agent that compares tables, as on MariaDB, may have counted what it found.
            assert older.hello()["generation"] in (generation, compiler.position().generation)
