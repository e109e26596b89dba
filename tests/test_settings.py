"""Settings: names, types, the file, the addresses, and what the command prints of them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from fastpath.interpreter import python_build, slow_interpreter
from fastpath.listen_address import Listener, SettingsError
from fastpath.settings import Settings, describe, load
from tests.support.sidecar import ROOT
from tools import settings_reference

NONE = {"FASTPATH_MODE": "none"}
SECRET = "0123456789abcdef0123456789abcdef"


def test_the_defaults() -> None:
    settings = load(NONE)
    assert settings == Settings(mode="none")
    assert (settings.cache_messages, settings.cache_seconds, settings.subscriptions_max) == (1000, 180, 10_000)
    assert (settings.delivery, settings.handshake_seconds, settings.ping_seconds, settings.echo) == (
        "guaranteed", 10, 25, False)  # fmt: skip
    limits = settings.limits
    assert (limits.cache_ms, limits.message_bytes_max) == (180_000, 1 << 20)


def test_rules_is_the_mode_unless_said_otherwise() -> None:
    with pytest.raises(SettingsError, match="mode rules needs a secret of 32 bytes or more"):
        load({})
    assert load({"FASTPATH_TOKEN_SECRET": SECRET}).mode == "rules"


def test_what_is_not_ours_is_not_looked_at() -> None:
    assert load(NONE | {"PATH": "/bin", "fastpath_mode": "x", "FAST": "y"}) == Settings(mode="none")


GOOD = {
    "number": ("CACHE_SECONDS", "60", "cache_seconds", 60),
    "zero": ("CACHE_MESSAGES", "0", "cache_messages", 0),
    "on": ("ECHO", "on", "echo", True),
    "1": ("ECHO", "1", "echo", True),
    "TRUE": ("ECHO", "TRUE", "echo", True),
    "0": ("SNAPSHOTS", "0", "snapshots", False),
    "no": ("SNAPSHOTS", "no", "snapshots", False),
    "empty is off": ("ECHO", "", "echo", False),
    "text": ("CONTROL", "/run/x.sock", "control", "/run/x.sock"),
}


@pytest.mark.parametrize(("name", "text", "key", "value"), GOOD.values(), ids=GOOD)
def test_good_values(name: str, text: str, key: str, value: object) -> None:
    assert getattr(load(NONE | {f"FASTPATH_{name}": text}), key) == value


BAD = {
    "unknown": ({"FASTPATH_COLOUR": "x"}, "unknown setting FASTPATH_COLOUR"),
    "did you mean": ({"FASTPATH_PING_SECOND": "5"}, "FASTPATH_PING_SECOND; did you mean FASTPATH_PING_SECONDS?"),
    "lower case": ({"FASTPATH_echos": "1"}, "unknown setting FASTPATH_ECHOS; did you mean FASTPATH_ECHO?"),
    "no number": ({"FASTPATH_PING_SECONDS": "5s"}, "FASTPATH_PING_SECONDS: '5s' is not a whole number"),
    "half a number": ({"FASTPATH_PING_SECONDS": "0.5"}, "FASTPATH_PING_SECONDS: '0.5' is not a whole number"),
    "empty number": ({"FASTPATH_PING_SECONDS": ""}, "FASTPATH_PING_SECONDS: '' is not a whole number"),
    "no truth": ({"FASTPATH_ECHO": "maybe"}, "FASTPATH_ECHO: 'maybe' is not on or off"),
    "negative": ({"FASTPATH_CACHE_MESSAGES": "-1"}, "FASTPATH_CACHE_MESSAGES: -1 is less than 0"),
    "no time": ({"FASTPATH_PING_SECONDS": "0"}, "FASTPATH_PING_SECONDS: 0 is less than 1"),
    "head": ({"FASTPATH_HEAD_BYTES_MAX": "65537"}, "FASTPATH_HEAD_BYTES_MAX: 65537 is not 1024 to 65536"),
    "no head": ({"FASTPATH_HEAD_BYTES_MAX": "100"}, "FASTPATH_HEAD_BYTES_MAX: 100 is not 1024 to 65536"),
    "leeway": ({"FASTPATH_TOKEN_LEEWAY_SECONDS": "301"}, "FASTPATH_TOKEN_LEEWAY_SECONDS: 301 is more than 300"),
    "no room": ({"FASTPATH_OUTBOX_BYTES_MAX": "0"}, "FASTPATH_OUTBOX_BYTES_MAX: 0 is less than 1"),
    "too much": ({"FASTPATH_UNSENT_BYTES_MAX": str(1 << 31)}, "FASTPATH_UNSENT_BYTES_MAX: 2147483648 is more than"),
    "a snapshot less than a message": (
        {"FASTPATH_SNAPSHOT_BYTES_MAX": "1000000"},
        "FASTPATH_SNAPSHOT_BYTES_MAX: 1000000 is less than FASTPATH_MESSAGE_BYTES_MAX, which is 1048576",
    ),
    "a message more than a snapshot": (
        {"FASTPATH_MESSAGE_BYTES_MAX": "9000000", "FASTPATH_OUTBOX_BYTES_MAX": "9000000"},
        "FASTPATH_SNAPSHOT_BYTES_MAX: 8388608 is less than FASTPATH_MESSAGE_BYTES_MAX, which is 9000000",
    ),
    "a message more than a queue": (
        {"FASTPATH_MESSAGE_BYTES_MAX": "6000000"},
        "FASTPATH_OUTBOX_BYTES_MAX: 4194304 is less than FASTPATH_MESSAGE_BYTES_MAX, which is 6000000",
    ),
    "a message more than Django says": (
        {"FASTPATH_MESSAGE_BYTES_MAX": "16000000"},
        "FASTPATH_MESSAGE_BYTES_MAX: 16000000 is more than 15728640",
    ),
    "a snapshot more than clients take": (
        {"FASTPATH_SNAPSHOT_BYTES_MAX": "33554433"},
        "FASTPATH_SNAPSHOT_BYTES_MAX: 33554433 is more than 33554432",
    ),
    "mode": ({"FASTPATH_MODE": "open"}, "FASTPATH_MODE: 'open' is none of none, basic, jwt, rules"),
    "hooks": ({"FASTPATH_HOOKS": "subscribed"}, "FASTPATH_HOOKS: 'subscribed' is none of connect, subscribe, publish"),
    "delivery": ({"FASTPATH_DELIVERY": "best"}, "FASTPATH_DELIVERY: 'best' is neither guaranteed nor standard"),
    "log level": ({"FASTPATH_LOG_LEVEL": "loud"}, "FASTPATH_LOG_LEVEL: 'loud' is none of debug, info"),
    "short secret": ({"FASTPATH_MODE": "jwt", "FASTPATH_TOKEN_SECRET": "short"}, "needs a secret of 32 bytes"),
    "short secret beside keys": (
        {"FASTPATH_MODE": "rules", "FASTPATH_TOKEN_SECRET": "short", "FASTPATH_TOKEN_KEYS": "k.json"},
        "needs a secret of 32 bytes",
    ),
    "no secret": ({"FASTPATH_MODE": "rules"}, "or FASTPATH_TOKEN_KEYS"),
    "audience": ({"FASTPATH_TOKEN_AUDIENCE": "market"}, "FASTPATH_TOKEN_AUDIENCE: it is of mode jwt"),
    "issuer": ({"FASTPATH_TOKEN_ISSUER": "me"}, "FASTPATH_TOKEN_ISSUER: it is of mode jwt"),
    "user claim": ({"FASTPATH_TOKEN_USER_CLAIM": "email"}, "FASTPATH_TOKEN_USER_CLAIM: it is of mode jwt"),
    "groups claim": ({"FASTPATH_TOKEN_GROUPS_CLAIM": "roles"}, "FASTPATH_TOKEN_GROUPS_CLAIM: it is of mode jwt"),
    "patterns of tokens": (
        {"FASTPATH_MODE": "jwt", "FASTPATH_TOKEN_SECRET": "s" * 32, "FASTPATH_TOKEN_SUBSCRIBE": "/a/{group}, /a/x{y}"},
        "FASTPATH_TOKEN_SUBSCRIBE: '/a/x{y}': only {username} or {user_id} may stand in braces",
    ),
    "a claim for a user": (
        {"FASTPATH_MODE": "jwt", "FASTPATH_TOKEN_SECRET": "s" * 32, "FASTPATH_TOKEN_PUBLISH": "/user/{email}/x"},
        "FASTPATH_TOKEN_PUBLISH: '/user/{email}/x': behind /user/ stands a name, not {email}",
    ),
    "publish token": ({"FASTPATH_PUBLISH_TOKEN": "x"}, "FASTPATH_PUBLISH_TOKEN: it is of mode basic"),
    "nowhere": ({"FASTPATH_LISTEN": ""}, "FASTPATH_LISTEN: no address to listen on"),
    "only commas": ({"FASTPATH_LISTEN": " , "}, "FASTPATH_LISTEN: no address to listen on"),
    "prefix": ({"FASTPATH_REDIS_PREFIX": "a{b}"}, "FASTPATH_REDIS_PREFIX: 'a{b}' is empty or has a blank or a brace"),
    "short logs": ({"FASTPATH_REDIS_LOG_MESSAGES": "10"}, "FASTPATH_REDIS_LOG_MESSAGES: 10 is less than 1000"),
    "proxies": ({"FASTPATH_TRUSTED_PROXIES": "10.0.0.1/8"}, "FASTPATH_TRUSTED_PROXIES: 10.0.0.1/8 has host bits set"),
    "publishers": ({"FASTPATH_PUBLISH_FROM": "localhost"}, "FASTPATH_PUBLISH_FROM: 'localhost' does not appear to be"),
    "origins": ({"FASTPATH_ORIGINS": "app.example.com"}, "FASTPATH_ORIGINS: 'app.example.com' is no origin"),
    "presence": ({"FASTPATH_PRESENCE": "/chat/**,/desk"}, "FASTPATH_PRESENCE: only one segment: '/desk'"),
    "audit": ({"FASTPATH_AUDIT": "access,all"}, "FASTPATH_AUDIT: all is none of access, message, cache, statistics"),
    "audit's folder": ({"FASTPATH_AUDIT": "access"}, "FASTPATH_AUDIT: it needs a folder: FASTPATH_AUDIT_FOLDER="),
    "audit's files": ({"FASTPATH_AUDIT_FILES": "0"}, "FASTPATH_AUDIT_FILES is 1 or more"),
    "audit's bytes": ({"FASTPATH_AUDIT_BYTES": "100"}, "FASTPATH_AUDIT_BYTES is 4096 or more"),
    "no such file": ({"FASTPATH_CONFIG": "/no/such/file"}, "FASTPATH_CONFIG: /no/such/file: [Errno 2]"),
}


@pytest.mark.parametrize(("environ", "words"), BAD.values(), ids=BAD)
def test_bad_values_are_named(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(NONE | environ)
    assert words in str(error.value)


FILES = {
    "no TOML": ("mode = none", "FASTPATH_CONFIG"),
    "unknown": ('mode = "none"\nping_second = 5', "unknown setting FASTPATH_PING_SECOND; did you mean"),
    "text for a number": ("ping_seconds = '5'", "ping_seconds must be a whole number"),
    "number for a truth": ("echo = 1", "echo must be true or false"),
    "truth for a number": ("ping_seconds = true", "ping_seconds must be a whole number"),
    "half": ("ping_seconds = 2.5", "ping_seconds must be a whole number"),
    "a table": ("[ping_seconds]\nx = 1", "ping_seconds must be a whole number"),
    "too small": ('mode = "none"\nping_seconds = 0', "FASTPATH_PING_SECONDS: 0 is less than 1"),
    "names in upper case": ("FASTPATH_ECHO = true", "unknown setting FASTPATH_FASTPATH_ECHO"),
}


@pytest.mark.parametrize(("text", "words"), FILES.values(), ids=FILES)
def test_a_bad_file(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "fastpath.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load({"FASTPATH_CONFIG": str(file)})
    assert words in str(error.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "fastpath.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"fastpath\.toml: "):
        load({"FASTPATH_CONFIG": str(file)})


def test_the_environment_has_the_last_word(tmp_path: Path) -> None:
    file = tmp_path / "fastpath.toml"
    file.write_text('mode = "none"\nping_seconds = 5\necho = true\ncontrol = "/é"\n', encoding="utf-8")
    settings = load({"FASTPATH_CONFIG": str(file), "FASTPATH_PING_SECONDS": "7"})
    assert (settings.mode, settings.ping_seconds, settings.echo, settings.control) == ("none", 7, True, "/é")


def test_no_secret_is_printed() -> None:
    for mode, name in (("basic", "PUBLISH_TOKEN"), ("rules", "TOKEN_SECRET")):
        text = describe(load({"FASTPATH_MODE": mode, f"FASTPATH_{name}": SECRET}))
        assert SECRET not in text
        assert f"# {name.lower()} = (set)" in text


def test_keys_are_enough_without_a_secret() -> None:
    assert load({"FASTPATH_MODE": "rules", "FASTPATH_TOKEN_KEYS": "keys.json"}).token_secret == ""


def test_no_password_of_redis_is_printed() -> None:
    url = "rediss+sentinel://u:one@h1,h2,h3/fp?sentinel_user=s&sentinel_password=two&ca=/ca.pem"
    text = describe(load(NONE | {"FASTPATH_ENGINE": url}))
    assert 'engine = "rediss+sentinel://…@h1,h2,h3/fp?sentinel_user=s&sentinel_password=…&ca=/ca.pem"' in text


ADDRESSES: dict[str, tuple[set[str], str, int, bool]] = {
    "clients://127.0.0.1:8800": ({"clients"}, "127.0.0.1", 8800, False),
    " publishers://localhost:0 ": ({"publishers"}, "localhost", 0, False),
    "clients+publishers://*:80": ({"clients", "publishers"}, "*", 80, False),
    "publishers+clients://*": ({"clients", "publishers"}, "*", 80, False),
    "CLIENTS://Example.ORG": ({"clients"}, "Example.ORG", 80, False),
    "clients://[::1]:8800": ({"clients"}, "::1", 8800, False),
    "clients://[::]": ({"clients"}, "::", 80, False),
    "clients+tls://*?cert=/c.pem": ({"clients"}, "*", 443, True),
    "clients+tls://*:8843?cert=/c.pem&key=/k.pem&ciphers=A:B": ({"clients"}, "*", 8843, True),
    "tls+clients+publishers://h:1?cert=/c.pem": ({"clients", "publishers"}, "h", 1, True),
    "control+tls://h:1?cert=/c.pem&ca=/a.pem": ({"control"}, "h", 1, True),
    "metrics://127.0.0.1:9100": ({"metrics"}, "127.0.0.1", 9100, False),
    "metrics+tls://*:9100?cert=/c.pem&ca=/a.pem": ({"metrics"}, "*", 9100, True),
    "clients+publishers+unix:///run/f%20p/c.sock": ({"clients", "publishers"}, "", 0, False),
}


@pytest.mark.parametrize(("url", "parts"), ADDRESSES.items(), ids=ADDRESSES)
def test_addresses(url: str, parts: tuple[set[str], str, int, bool]) -> None:
    listener = Listener.parse(url)
    assert (set(listener.purposes), listener.host, listener.port, listener.tls) == parts


def test_the_options_of_an_address() -> None:
    listener = Listener.parse("clients+tls://*:1?cert=/a%20b/c.pem&key=/k.pem&ciphers=ECDHE%2BAESGCM")
    assert (listener.cert, listener.key, listener.ciphers) == ("/a b/c.pem", "/k.pem", "ECDHE+AESGCM")
    assert (listener.deflate, listener.batch_ms) == (0, 0)
    listener = Listener.parse("clients+publishers://*:1?deflate=200&batch_ms=20&batch_bytes=8192")
    assert (listener.deflate, listener.batch_ms, listener.batch_bytes) == (200, 20, 8192)
    assert Listener.parse("clients://*:1?batch_ms=20").batch_bytes == 16 << 10
    assert Listener.parse("clients://*:1?batch_bytes=300").batch_ms == 100
    listener = Listener.parse("clients+tls://*:1?cert=/c.pem&tls_min=1.3&ciphers_exclude=A:B&curve=system&proxy=v2")
    assert (listener.tls_min, listener.ciphers_exclude, listener.curve) == ("1.3", "A:B", "system")
    assert (listener.proxy, Listener.parse("clients://*:1").proxy, Listener.parse("clients://*:1").tls_min) == (
        "v2", "", "1.2")  # fmt: skip
    assert Listener.parse("clients://*:1?proxy=v1").proxy == "v1"
    listener = Listener.parse("clients+unix:///run/f%20p/c.sock?mode=0660")
    assert (listener.path, listener.mode) == ("/run/f p/c.sock", 0o660)
    assert Listener.parse("clients+unix:///c").mode == 0o600


NO_ADDRESSES = {
    "127.0.0.1:8800": "the scheme is made of",
    "http://127.0.0.1": "the scheme is made of",
    "client://127.0.0.1": "the scheme is made of",
    "tls://127.0.0.1?cert=/c": "the scheme is made of",
    "://127.0.0.1": "the scheme is made of",
    "clients://": "an address is missing",
    "clients://:8800": "an address is missing",
    "clients://h:eight": "Port could not be cast",
    "clients://h:65536": "Port out of range",
    "clients://h:-1": "Port could not be cast",
    "clients://[::1": "Invalid IPv6 URL",
    "clients://h:1/ws": "only HOST:PORT",
    "clients://user@h:1": "only HOST:PORT",
    "clients://h:1?cert=/c.pem": "+tls and ?cert=",
    "clients+tls://h:1": "+tls and ?cert=",
    "clients+tls://h:1?cert=/c&colour=red": "unknown option colour",
    "clients://h:1?deflate": "deflate= is no whole number from 1",
    "clients://h:1?deflate=on": "deflate=on is no whole number from 1",
    "clients://h:1?deflate=0": "no whole number from 1",
    "clients://h:1?deflate=-1": "no whole number from 1",
    "clients://h:1?batch_ms=20.5": "no whole number from 1 to 10000",
    "clients://h:1?batch_ms=10001": "no whole number from 1 to 10000",
    f"clients://h:1?batch_ms={'9' * 5000}": "no whole number from 1 to 10000",
    "clients://h:1?batch_ms=20&batch_bytes=2000000": "no whole number from 1 to 1048576",
    "publishers://h:1?deflate=100": "for a listener of clients",
    "control+tls://h:1?cert=/c.pem&ca=/a.pem&batch_ms=20": "for a listener of clients",
    "control+tls://h:1?cert=/c.pem": "?ca=FILE",
    "control+clients+tls://h:1?cert=/c.pem&ca=/a": "an address of its own",
    "metrics+clients://h:1": "metrics have an address of their own",
    "clients+unix://": "a unix socket has a path",
    "clients+unix:///": "a unix socket has a path",
    "clients+unix://host/path": "a unix socket has a path",
    "clients+unix+tls:///c.sock?cert=/c": "and no TLS",
    f"clients+unix:///{'x' * 100}": "of at most 100 bytes",
    "control+unix:///c.sock": "control has an address of its own",
    "clients+unix:///c.sock?mode=9": "mode is for a unix socket, three octal digits such as 660",
    "clients+unix:///c.sock?mode=7777": "mode is for a unix socket",
    "clients://h:1?mode=660": "mode is for a unix socket",
    "clients://h:1?proxy=v3": "proxy is the version of the proxy protocol, v1 or v2",
    "metrics://h:1?proxy=v2": "proxy is for listeners of clients and publishers",
    "clients://h:1?tls_min=1.2": "tls_min is for +tls",
    "clients://h:1?ca=/a": "ca is for +tls",
    "clients+tls://h:1?cert=/c&tls_min=1.1": "tls_min is 1.2 or 1.3",
}


@pytest.mark.parametrize(("url", "words"), NO_ADDRESSES.items(), ids=[url[:60] for url in NO_ADDRESSES])
def test_what_is_no_address(url: str, words: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(NONE | {"FASTPATH_LISTEN": f"publishers://127.0.0.1:0,{url}"})
    assert words in str(error.value)


def test_a_batch_fits_into_the_outgoing_queue() -> None:
    with pytest.raises(SettingsError, match="batch_bytes=60000 is more than half of FASTPATH_OUTBOX_BYTES_MAX"):
        load(
            NONE
            | {
                "FASTPATH_LISTEN": "clients://a:1?batch_ms=20&batch_bytes=60000",
                "FASTPATH_OUTBOX_BYTES_MAX": "100000",
            }
        )


def test_several_addresses() -> None:
    settings = load(NONE | {"FASTPATH_LISTEN": "clients://a:1, publishers://b:2,"})
    assert [(listener.host, listener.port) for listener in settings.listeners] == [("a", 1), ("b", 2)]


# The command


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the sidecar's command with these settings only."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    environ |= {f"FASTPATH_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "fastpath", *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "prefix", "build"),
    [
        ("'--prefix=/opt/py' '--enable-optimizations' '--with-lto'", "/opt/py", "optimised"),
        ("'--prefix=/opt/py' '--enable-shared'", "/opt/py", "not optimised"),
        ("'--enable-shared' '--prefix=/usr'", "/usr", "not known"),  # Debian's, whose second build is what runs
        (None, "C:\\Python", "not known"),
    ],
)
def test_a_slow_interpreter_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, arguments: str | None, prefix: str, build: str
) -> None:
    monkeypatch.setitem(sysconfig.get_config_vars(), "CONFIG_ARGS", arguments)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    assert python_build() == build
    assert ("3 to 14 %" in slow_interpreter()) == (build == "not optimised")


def test_check() -> None:
    good = command("--check", mode="none")
    assert (good.returncode, good.stdout) == (0, "the settings are good\n")
    warning = slow_interpreter()
    assert good.stderr == (f"fastpath: warning: {warning}\n" if warning else "")
    bad = command("--check", mode="none", pong_seconds="5")
    words = "fastpath: unknown setting FASTPATH_PONG_SECONDS; did you mean FASTPATH_PING_SECONDS?\n"
    assert (bad.returncode, bad.stdout, bad.stderr) == (2, "", words)
    secret = command("--check")
    assert secret.returncode == 2
    assert "FASTPATH_MODE=none runs without rights" in secret.stderr
    tls = command("--check", mode="none", listen="clients+tls://*:0?cert=/no/cert.pem")
    assert (tls.returncode, tls.stdout) == (2, "")
    assert "No such file or directory (certificate /no/cert.pem, key in it)" in tls.stderr


def test_what_print_settings_prints_can_be_read_again(tmp_path: Path) -> None:
    asked = {"token_secret": SECRET, "ping_seconds": "7", "control": '/a "b" \\é', "echo": "on"}
    printed = command("--print-settings", **asked)
    assert printed.returncode == 0
    assert SECRET not in printed.stdout
    assert "# token_secret = (set)" in printed.stdout
    values = tomllib.loads(printed.stdout)
    assert values.keys() == {one.name for one in fields(Settings)} - {"token_secret"}
    file = tmp_path / "fastpath.toml"
    file.write_text(printed.stdout, encoding="utf-8")
    again = command("--print-settings", config=str(file), token_secret=SECRET)
    assert again.stdout == printed.stdout
    assert describe(load({"FASTPATH_CONFIG": str(file), "FASTPATH_TOKEN_SECRET": SECRET})) + "\n" == printed.stdout


def test_help_names_every_setting_with_its_default_and_reason() -> None:
    text = command("--help").stdout
    for one in fields(Settings):
        assert f"FASTPATH_{one.name.upper()} (default {one.default!r})\n      {one.metadata['help']}\n" in text + "\n"


def test_the_page_for_operators_lists_them_as_they_are() -> None:
    text = settings_reference.PAGE.read_text(encoding="utf-8")
    assert text == settings_reference.page(text), "run python tools/settings_reference.py"


def test_a_command_that_does_not_exist() -> None:
    wrong = command("--serve", mode="none")
    assert wrong.returncode == 2
    assert "unrecognized arguments: --serve" in wrong.stderr
