"""The system checks and the settings' reading."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import RequestFactory

from entitlement import conf as entitlement_conf
from entitlement import keys
from realtime import checks
from realtime.conf import conf, local_address
from realtime.models import OutboxMessage
from tests.support.entitlement.live import RunningAgent
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


def test_an_unknown_key_is_an_error_that_names_the_closest(settings: Any) -> None:
    """A mistyped key would leave the default in force."""
    assert checks.check_keys() == []
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECOND": 60}
    [error] = checks.check_keys()
    assert (error.id, "TOKEN_SECONDS" in error.hint) == ("realtime.E001", True)


def test_a_template_that_is_not_there(settings: Any) -> None:
    """Its first visitor would find out."""
    assert checks.check_base_template() == []
    settings.REALTIME = {}
    assert checks.check_base_template() == []
    settings.REALTIME = {"BASE_TEMPLATE": "none.html"}
    [error] = checks.check_base_template()
    assert (error.id, "none.html" in error.msg, "BASE_TEMPLATE" in error.hint) == ("realtime.E015", True, True)
    settings.REALTIME = {"BASE_TEMPLATE": "admin/base_site.html"}
    [error] = checks.check_base_template()
    assert (error.id, "{% block scripts %}" in error.hint, "{% block content %}" in error.hint) == (
        "realtime.E015", True, False,
    )  # fmt: skip


def test_an_extra_that_is_not_installed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where a setting asks for what it brings."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert checks.check_extras() == []
    settings.REALTIME = settings.REALTIME | {"JMX": "jmx://127.0.0.1:9010"}
    [error] = checks.check_extras()
    assert (error.id, error.hint) == ("realtime.E014", "pip install 'django-fastpath[jmx]'")


def test_without_settings_the_socket_is_below_the_project(settings: Any, tmp_path: Path) -> None:
    """In a private folder where its path would be too long for the kernel."""
    settings.REALTIME = {}
    settings.BASE_DIR = tmp_path
    assert conf.own_control == str(tmp_path / "var" / "fastpath.sock")
    settings.BASE_DIR = tmp_path / ("x" * 100)
    assert len(conf.own_control) < 100
    assert Path(conf.own_control).parent.stat().st_mode & 0o777 == 0o700
    Path(conf.own_control).parent.rmdir()
    del settings.BASE_DIR
    with pytest.raises(ImproperlyConfigured, match="CONTROL"):
        conf.controls  # noqa: B018 - it raises


def test_a_number_that_bounds_nothing(settings: Any) -> None:
    for most in (0, -1, "many", True):
        settings.REALTIME = settings.REALTIME | {"FORWARDED_MAX": most}
        (error,) = checks.check_publishing()
        assert (error.id, "FORWARDED_MAX" in error.msg) == ("realtime.E020", True)


def test_addresses_of_the_statistics_are_read_before_they_are_needed(settings: Any) -> None:
    """Both, and a password in one would be logged."""
    assert checks.check_addresses() == []
    settings.REALTIME = settings.REALTIME | {"STATS_LISTEN": "http://127.0.0.1:9100", "JMX": "jmx://127.0.0.1:9010"}
    assert checks.check_addresses() == []
    for key in ("STATS_LISTEN", "JMX"):
        settings.REALTIME = settings.REALTIME | {"STATS_LISTEN": "", "JMX": ""} | {key: "ftp://127.0.0.1:1"}
        [error] = checks.check_addresses()
        assert (error.id, key in error.msg) == ("realtime.E012", True)


def test_the_sidecar_is_asked_for(settings: Any, tmp_path: Path, rules_sidecar: Sidecar) -> None:
    """It is away; it is there without rights; it needs none."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    [away] = checks.sidecar_messages()
    assert away.id == "realtime.W001"
    assert "runrealtime" in away.hint
    settings.REALTIME = settings.REALTIME | {"CONTROL": rules_sidecar.control}
    assert [found.id for found in checks.sidecar_messages()] == ["realtime.W002"]
    with Sidecar(mode="none") as unruled:
        settings.REALTIME = settings.REALTIME | {"CONTROL": unruled.control}
        assert checks.sidecar_messages() == []


@pytest.mark.parametrize(("command", "warned"), [("check", ["realtime.W001"]), ("diffsettings", [])])
def test_only_the_check_command_warns(
    command: str, warned: list[str], settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command runs the checks; most have no need of the sidecar."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    monkeypatch.setattr(sys, "argv", ["manage.py", command])
    assert [found.id for found in checks.check_sidecar()] == warned


def test_the_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The next process reads the same."""
    program = "from realtime import settings; print(settings.SECRET_KEY)"
    environment = os.environ | {"REALTIME_VAR": str(tmp_path / "run")}
    keys = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert keys[0] == keys[1]
    assert len(keys[0]) > 50
    assert (tmp_path / "run" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_control_path_that_is_too_long_for_the_kernel_moves(tmp_path: Path) -> None:
    """A project may lie deep."""
    program = "from realtime import settings; print(settings.REALTIME['CONTROL'])"
    environment = os.environ | {"REALTIME_VAR": str(tmp_path / ("deep" * 30)), "TMPDIR": str(tmp_path)}
    environment.pop("FASTPATH_CONTROL", None)
    path = Path(
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    assert path.parent.parent == tmp_path
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_pages_learn_addresses_that_work_where_they_are_shown(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is that of the request; over TLS the plain port is left out."""
    monkeypatch.delenv("FASTPATH_LISTEN", raising=False)
    request = RequestFactory().get("/", headers={"host": "localhost:8000"})
    host = request.get_host()

    def servers(host: str, secure: bool) -> list[tuple[str, int]]:
        return [(server.url, server.weight) for server in conf.servers(host, secure)]

    assert servers(host, False) == [("ws://localhost:8800/ws", 100), ("ws://localhost:8000/ws", 0)]
    assert servers(host, True) == [("wss://localhost:8000/ws", 100)]
    assert servers("[::1]:8000", False)[0] == ("ws://[::1]:8800/ws", 100)
    listed = ["wss://live.example.com/ws", {"url": "{web}", "weight": 5}, {"url": "ws://{host}:1/ws"}]
    settings.REALTIME = settings.REALTIME | {"SERVERS": listed}
    assert servers("x.example.com", True) == [
        ("wss://live.example.com/ws", 100),
        ("wss://x.example.com/ws", 5),
        ("ws://x.example.com:1/ws", 100),
    ]
    assert servers("", True) == [("wss://live.example.com/ws", 100)], "without a page nothing is known of its host"


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "ws://a/ws", "weight": 101},
        {"url": "ws://a/ws", "weight": "5"},
        {"url": "ws://a/ws", "control": "/no/such.sock"},
        {"address": "ws://a/ws"},
        {"url": ""},
        7,
    ],
)
def test_a_server_list_that_makes_no_sense_is_an_error(settings: Any, entry: Any) -> None:
    """It is found by `manage.py check`, not by a page."""
    settings.REALTIME = settings.REALTIME | {"SERVERS": [entry]}
    [error] = checks.sidecar_messages()
    assert (error.id, 'REALTIME["SERVERS"]' in error.msg) == ("realtime.E002", True)


def test_a_key_that_has_another_name_now_is_named(settings: Any) -> None:
    """Its list has the same form."""
    settings.REALTIME = settings.REALTIME | {"CLIENT_URLS": []}
    assert "SERVERS" in checks.check_keys()[0].hint


def test_each_node_is_asked_for(settings: Any, tmp_path: Path, sidecar: Sidecar) -> None:
    """One that is away is named, and so is one that shares nothing with the others."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": [sidecar.control, str(tmp_path / "none.sock")]}
    unshared, away = checks.sidecar_messages()
    assert (unshared.id, sidecar.control in unshared.msg) == ("realtime.W003", True)
    assert (away.id, "none.sock is away" in away.msg) == ("realtime.W001", True)


@pytest.mark.parametrize(
    ("given", "controls", "own"),
    [
        ("/run/a.sock", ["/run/a.sock"], "/run/a.sock"),
        (Path("/run/a.sock"), ["/run/a.sock"], "/run/a.sock"),
        (["tls://b:1", Path("/run/a.sock")], ["tls://b:1", "/run/a.sock"], "/run/a.sock"),
        (("tls://b:1", "tls://c:1"), ["tls://b:1", "tls://c:1"], None),
        ([], None, None),
        ("", None, None),
    ],
)
def test_control_is_one_address_or_several(
    settings: Any, given: Any, controls: list[str] | None, own: str | None
) -> None:
    """The first path is that of the sidecar which runrealtime starts."""
    settings.REALTIME = {"CONTROL": given}
    for ask, answer in ((lambda: conf.controls, controls), (lambda: conf.own_control, own)):
        if answer is not None:
            assert ask() == answer
        else:
            with pytest.raises(ImproperlyConfigured):
                ask()


def test_the_sidecars_addresses_are_those_it_listens_on() -> None:
    """A shared port, all addresses, TLS."""
    listen = "clients+tls://*:8843?cert=c&key=k,clients+publishers://*:8800"
    assert local_address(listen, "clients") == "127.0.0.1:8800"
    assert local_address(listen, "publishers") == "127.0.0.1:8800"
    assert local_address("publishers://10.0.0.5:8801", "publishers") == "10.0.0.5:8801"
    assert local_address("publishers://10.0.0.5:8801", "clients") == ""
    assert local_address("mqtt+tls://*:8883?cert=c&key=k,mqtt://*:1883", "mqtt") == "127.0.0.1:1883"
    assert local_address("clients://*:8800?proxy=v2,clients+unix:///run/c.sock,clients://*:8810", "clients") == (
        "127.0.0.1:8810"
    )


@pytest.mark.django_db(transaction=True)
def test_a_sidecar_that_does_not_take_the_tokens_is_an_error(settings: Any, tmp_path: Path) -> None:
    """It answers and has its rights, but with another secret, or other keys, every user would be refused."""
    own = entitlement_conf.token_secret()
    for secret, found in (("x" * 32, ["realtime.E013"]), (own, [])):
        with Sidecar(mode="rules", token_secret=secret) as sidecar, RunningAgent(sidecar.control):
            settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
            messages = until_ready()
            assert [message.id for message in messages] == found
            assert all("realtime_keys --secret" in message.hint for message in messages)
    keys.rotate(path := str(tmp_path / "keys.json"), "EdDSA")
    keys.rotate(other := str(tmp_path / "other.json"), "EdDSA")
    settings.REALTIME = settings.REALTIME | {"TOKEN_KEYS": path, "TOKEN_SECRET": None}
    for file, found in ((other, ["realtime.E013"]), (path, [])):
        public = keys.public_path(file)
        with Sidecar(mode="rules", token_secret="", token_keys=public) as sidecar, RunningAgent(sidecar.control):
            settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control}
            assert [message.id for message in until_ready()] == found


def until_ready() -> list[CheckMessage]:
    """What the check says once the rights have arrived."""

    def looked() -> list[list[CheckMessage]]:
        messages = checks.sidecar_messages()
        return [] if any(message.id == "realtime.W002" for message in messages) else [messages]

    return until(looked)[0]


@pytest.mark.django_db(transaction=True)
def test_an_outbox_that_cannot_be_used_is_named(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is none, a number that is none, a table that no migration has made."""
    assert checks.outbox_messages() == []
    for given in ("elsewhere", 1, ["default"]):
        settings.REALTIME = settings.REALTIME | {"OUTBOX": given, "OUTBOX_ROWS_MAX": 0}
        found = checks.check_publishing()
        assert [error.id for error in found] == ["realtime.E020"] * 2
        assert "'default'" in found[0].msg
        assert checks.outbox_messages() == []
    settings.REALTIME = settings.REALTIME | {"OUTBOX": True, "OUTBOX_ROWS_MAX": 10}
    assert [*checks.check_publishing(), *checks.outbox_messages()] == []
    with monkeypatch.context() as patch:  # a sender that writes makes transactions that do not wait fail
        patch.setitem(connection.settings_dict, "OPTIONS", {})
        [warning] = checks.outbox_messages()
        assert (warning.id, "IMMEDIATE" in str(warning.hint)) == ("realtime.W008", True)
    monkeypatch.setattr(OutboxMessage._meta, "db_table", "elsewhere")
    [error] = checks.outbox_messages()
    assert (error.id, "elsewhere" in error.msg) == ("realtime.E021", True)
    assert error.hint is not None
    assert "migrate realtime --database default" in error.hint
    assert checks.check_outbox() == []
    monkeypatch.setattr(sys, "argv", ["manage.py", "check"])
    assert [error.id for error in checks.check_outbox()] == ["realtime.E021"]
    monkeypatch.setattr(connection, "vendor", "mysql")
    [error] = checks.outbox_messages()
    assert (error.id, "SQLite or PostgreSQL" in str(error.hint)) == ("realtime.E021", True)


def test_urls_that_name_none_of_ours(settings: Any) -> None:
    """As after a first half of the guide."""
    assert checks.urls_messages() == []
    settings.ROOT_URLCONF = "tests.support.realtime.empty_urls"
    [warning] = checks.urls_messages()
    assert (warning.id, 'include("realtime.urls")' in warning.hint) == ("realtime.W009", True)
    assert checks.check_urls() == []  # of other commands than `check`, nothing is asked


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("CONTROL", 5, "a path or an address, or a list of them, not 5"),
        ("DATA", 7, "a path, not 7"),
        ("RUNSERVER", "no", "True or False, not 'no'"),
        ("LISTENERS", "shop.live.Heard", "a list, not 'shop.live.Heard'"),
        ("LISTEN", 8800, "a text of addresses with commas, not 8800"),
        ("TOKEN_SECRET", b"x" * 32, "a text, not b"),
    ],
)
def test_a_value_of_another_kind(settings: Any, key: str, value: Any, words: str) -> None:
    """It would fail far from where it was written, or be taken for something else."""
    settings.REALTIME = settings.REALTIME | {key: value}
    [error] = checks.check_keys()
    assert (error.id, f'REALTIME["{key}"] is {words}' in error.msg) == ("realtime.E025", True), error.msg


@pytest.mark.parametrize("whole", [["LISTEN"], "ON_FAILURE", None])
def test_settings_that_are_no_dict(settings: Any, whole: Any) -> None:
    """Whatever else looks at them finds none, instead of raising before this can be told."""
    settings.REALTIME = whole
    [error] = checks.check_keys()
    assert (error.id, "is a dict of settings" in error.msg) == ("realtime.E001", True)
    assert checks.check_extras() == checks.check_addresses() == checks.check_publishing() == []


@pytest.mark.parametrize(
    ("listen", "wrong"),
    [
        ("127.0.0.1:8800", "127.0.0.1:8800"),
        ("clients://127.0.0.1:8800, publishers://127.0.0.1", "publishers://127.0.0.1"),
        ("clients+unix:///run/fastpath/clients.sock?mode=660,clients+tls://*:8843?cert=a&key=b,mqtt://[::1]:1883", ""),
    ],
)
def test_an_address_that_is_none(settings: Any, listen: str, wrong: str) -> None:
    """Pages would look for the sidecar where nobody listens."""
    settings.REALTIME = settings.REALTIME | {"LISTEN": listen}
    found = checks.check_addresses()
    assert [f"{wrong!r} is no address" in error.msg for error in found] == ([True] if wrong else [])


def test_settings_of_a_name_that_is_nearly_right(settings: Any) -> None:
    """All of them would be missed at once."""
    settings.REALTIM = {"LISTEN": "clients://127.0.0.1:9000"}
    [warning] = checks.check_keys()
    assert (warning.id, "REALTIM of" in warning.msg, "REALTIME" in warning.hint) == ("realtime.W010", True, True)
