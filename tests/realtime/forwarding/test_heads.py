"""What the sidecar is told of a request, and what is told of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from realtime.forwarding.heads import (
    AWAY,
    Target,
    answered,
    below_mount,
    has_token,
    is_forwarded,
    is_own_host,
    target_of,
    told,
    without_prefix,
)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("ws://127.0.0.1:8800/ws", Target("127.0.0.1", 8800, False, "")),
        ("wss://live.example.com/app/ws", Target("live.example.com", 443, True, "/app")),
        ("ws://[::1]:8800/ws", Target("::1", 8800, False, "")),
        ("", None),
    ],
)
def test_where_to(url: str, target: Target | None) -> None:
    assert Target.parse(url) == target


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("/snapshot", True),
        ("/events", True),
        ("/api/publish", True),
        ("/session/stream", True),
        ("/session/", True),
        ("/session", False),
        ("/api/servers/", False),
        ("/api/publish/", False),
        ("/", False),
    ],
)
def test_which(path: str, yes: bool) -> None:
    assert is_forwarded(path) is yes


def test_the_target_is_one_that_can_be_sent() -> None:
    """Nothing in it ends the line or begins another."""
    assert target_of("/app", "/session/a b\r\nX: y", b"token=a%2Fb&x=#\r\n\xe9") == (
        "/app/session/a%20b%0D%0AX%3A%20y?token=a%2Fb&x=%23%0D%0A%E9"
    )


def test_what_is_for_this_hop_and_cookies_stay_here() -> None:
    rows = [
        ("Host", "site:80"),
        ("Connection", "keep-alive, X-Mine"),
        ("Keep-Alive", "timeout=5"),
        ("X-Mine", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Cookie", "sessionid=1"),
        ("Expect", "100-continue"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("Authorization", "Bearer t"),
    ]
    assert told(rows, "10.0.0.2") == [
        ("host", "site:80"),
        ("authorization", "Bearer t"),
        ("x-forwarded-for", "10.0.0.1, 10.0.0.2"),
    ]
    assert told([], "") == [("x-forwarded-for", "unknown")]
    assert answered([("Connection", "close, X-Its"), ("X-Its", "1"), ("Vary", "Origin")]) == [("Vary", "Origin")]


@pytest.mark.parametrize(("origin", "is_told"), [("http://site", False), ("https://SITE", False), ("null", True)])
def test_the_origin_of_a_page_of_this_site_is_not_told(origin: str, is_told: bool) -> None:
    rows = told([("host", "site"), ("origin", origin)], "")
    assert (("origin", origin) in rows) is is_told
    assert ("origin", "http://site:81") in told([("host", "site"), ("origin", "http://site:81")], "")


def test_below_a_prefix(settings: Any) -> None:
    assert without_prefix("/app/events", "/app") == "/events"
    assert without_prefix("/events", "/app/") == "/events"
    assert without_prefix("/application", "/app") == "/application"
    settings.FORCE_SCRIPT_NAME = "/site"
    assert without_prefix("/site/events", "") == "/events"


@pytest.mark.parametrize(
    ("urls", "path", "expected"),
    [
        ("realtime.demo.urls", "/realtime/events", "/realtime/events"),
        ("tests.support.realtime.mounted_urls", "/live/data/events", "/events"),
        ("tests.support.realtime.mounted_urls", "/live/data/api/publish", "/api/publish"),
        ("tests.support.realtime.mounted_urls", "/events", "/events"),
        ("tests.support.realtime.mounted_urls", "/live/database", "/live/database"),
        ("realtime.outside.urls", "/live/data/events", "/live/data/events"),
    ],
)
def test_below_the_prefix_of_the_urlconf(settings: Any, urls: str, path: str, expected: str) -> None:
    settings.ROOT_URLCONF = urls
    assert below_mount(path) == expected


def test_hosts_are_those_of_the_site(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["example.com"]
    assert is_own_host("example.com:8000")
    assert not is_own_host("evil.org")
    assert not is_own_host("")


def test_which_requests_bring_a_token() -> None:
    assert has_token({"authorization": "bearer x"}, "")
    assert has_token({}, "subject=/a&token=")
    assert not has_token({"authorization": "Basic eDp5"}, "subject=/a")


def test_a_problem_says_when_to_come_back() -> None:
    assert json.loads(AWAY.body)["status"] == 503
    assert ("Retry-After", "1") in AWAY.headers
