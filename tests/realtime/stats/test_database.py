"""Where the statistics are: in a file of their own beside a database of SQLite, and what becomes of earlier ones."""

from __future__ import annotations

import sqlite3
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import closing
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from realtime import checks
from realtime.models import StatisticsState
from realtime.stats import database
from realtime.stats.store import Store
from tests.support.guide import Project, one
from tests.support.waiting import until

FILE = "db-statistics.sqlite3"

LOGINS = 40

EARLIER = """
from realtime.models import StatisticsBucket, StatisticsState
from realtime.stats.windows import KEPT, SIZES
StatisticsState.objects.create(pk=1, holder="of before", beat=7, through=59, names=list(KEPT), nodes={})
values = __import__("array").array("d", [1.0, 5.0, 0.0, 5.0] * len(KEPT)).tobytes()
StatisticsBucket.objects.create(pk=1 * len(SIZES), size=SIZES[0], number=1, values=values)
"""

CLAIM = """
from realtime.stats.store import Store
store = Store()
saved = store.claim()
print(saved.through, sum(map(len, saved.history.buckets.values())))
store.release()
"""

READ = """
from realtime.stats import read
from realtime.models import StatisticsState
from realtime.stats import database
with database.to_read() as alias:
    print(alias, StatisticsState.objects.using(alias).get().through)
"""


def rows(file: Path, table: str = "bucket") -> int:
    """How many a table of the statistics has there."""
    with closing(sqlite3.connect(file, timeout=20)) as opened:
        query = f"SELECT COUNT(*) FROM realtime_statistics{table}"  # noqa: S608 - of this test's own words
        return int(opened.execute(query).fetchone()[0])


class Visitor:
    """A browser as far as signing in needs one."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    def signs_in(self) -> str:
        """``in``, or the status of the page that failed."""
        try:
            self._opener.open(f"{self._site}/admin/login/").read()
            self._post("login", username="root", password="demo")
            return "in" if any(cookie.name == "sessionid" for cookie in self._jar) else "out"
        except urllib.error.HTTPError as error:
            return str(error.code)

    def signs_out(self) -> None:
        """By the admin's button."""
        self._post("logout")

    def _post(self, page: str, **values: str) -> None:
        [token] = [cookie.value for cookie in self._jar if cookie.name == "csrftoken"]
        data = urllib.parse.urlencode({**values, "csrfmiddlewaretoken": token, "next": "/admin/"}).encode()
        self._opener.open(f"{self._site}/admin/{page}/", data).read()


@pytest.mark.slow
def test_while_it_runs_no_login_of_a_new_project_fails(tmp_path: Path) -> None:
    """SQLite as `startproject` has it, and each request a transaction: one that has read must be able to write."""
    project = Project(tmp_path, 'DATABASES["default"]["ATOMIC_REQUESTS"] = True')
    project.migrate()
    project.shell("from django.contrib.auth.models import User; User.objects.create_superuser('root', password='demo')")
    with project.running() as site:
        until(lambda: (tmp_path / FILE).exists())
        found = Counter[str]()
        while found.total() < LOGINS or rows(tmp_path / FILE) < 3:  # some of them while statistics are saved
            visitor = Visitor(site.url)
            found[visitor.signs_in()] += 1
            visitor.signs_out()
        assert list(found) == ["in"], site.output
    assert [rows(tmp_path / "db.sqlite3", table) for table in ("bucket", "state")] == [0, 0]


def test_statistics_of_before_go_along_and_stay_where_they_were(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.migrate()
    done = project.manage("shell", "-v0", "-c", EARLIER + READ + CLAIM + CLAIM + READ)
    before, claimed, again, after = done.stdout.splitlines()
    assert before == "default 59", "until there is a collector they are read there"
    assert (claimed, again, after) == ("59 1", "59 1", f"{database.FILE_ALIAS} 59")
    assert done.stderr.count('1 buckets of the database "default" were copied') == 1, "once"
    assert str(tmp_path / FILE) in done.stderr
    assert [rows(tmp_path / name) for name in (FILE, "db.sqlite3")] == [1, 1]
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in (FILE, "db.sqlite3")]
    assert modes[0] == modes[1]
    assert not [path.name for path in tmp_path.glob(".db-*")], "nothing is left of making it"


def test_a_database_that_the_settings_name_is_taken(tmp_path: Path) -> None:
    """The main one as before; or another, where the router makes nothing but the statistics."""
    project = Project(tmp_path, 'REALTIME = {"STATS_DATABASE": "default"}')
    project.migrate()
    assert project.shell(EARLIER.replace("of before", "") + CLAIM) == "59 1\n"
    assert not (tmp_path / FILE).exists()
    project.append(
        "mysite/settings.py",
        one("docs/operate/figures.md", "python", 'DATABASES["figures"]'),
    )
    (tmp_path / "var").mkdir()
    check = project.manage("check", check=False)
    assert "realtime.E023" in check.stderr and "migrate realtime --database figures" in check.stderr
    project.manage("migrate", "realtime", "--database", "figures", "-v0")
    with closing(sqlite3.connect(tmp_path / "var" / "figures.sqlite3")) as opened:
        tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables - {"sqlite_sequence"} == {
        "django_migrations",
        "realtime_statisticsbucket",
        "realtime_statisticsstate",
    }
    assert project.shell(CLAIM) == "59 1\n"
    assert rows(tmp_path / "var" / "figures.sqlite3") == 1
    assert not (tmp_path / FILE).exists()


def test_one_that_is_not_there_is_an_error_of_check(settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"STATS_DATABASE": "figures"}
    [error] = checks.check_statistics()
    assert (error.id, error.msg) == (
        "realtime.E023",
        "REALTIME[\"STATS_DATABASE\"] is a database ('default'), not 'figures'.",
    )


@pytest.mark.parametrize("name", [":memory:", "file:shared?mode=memory&cache=shared"])
def test_a_database_in_memory_has_no_file_beside_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(type(database.conf), "is_test_run", False)
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", "/srv/site/db.sqlite3")
    assert database.own_file() == Path("/srv/site/db-statistics.sqlite3")
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", name)
    assert database.own_file() is None


@pytest.mark.django_db(transaction=True)
def test_tests_of_a_project_are_in_its_database_of_the_tests() -> None:
    assert database.own_file() is None
    assert Store().claim() is not None
    assert StatisticsState.objects.using("default").count() == 1
