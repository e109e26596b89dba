"""Which function of a project answers what."""

from __future__ import annotations

from itertools import permutations

import pytest
from django.core.exceptions import ImproperlyConfigured

from fastpath.client.message import Request
from fastpath.core.protocol.limits import RESPONDER_PATTERNS_MAX
from realtime.requests.responders import Responders


def one(request: Request) -> str:
    return "one"


def two(request: Request) -> str:
    return "two"


def three(request: Request) -> str:
    return "three"


def test_the_pattern_that_says_most_answers() -> None:
    responders = Responders()
    responders.add("/**", one)
    responders.add("/q/*", two)
    assert responders.handler("/q/a") is two
    assert responders.handler("/q/a/b") is one
    assert responders.handler("/__sys__/x") is None
    assert responders.patterns == ["/**", "/q/*"]


def test_of_equally_long_patterns_that_without_wildcards_answers() -> None:
    """In whatever order they were added."""
    patterns = ("/q/**", "/q/*", "/q/a")
    for order in permutations(patterns):
        responders = Responders()
        for pattern in order:
            responders.add(pattern, one if pattern == "/q/a" else two if pattern == "/q/*" else three)
        assert [responders.handler(subject) for subject in ("/q/a", "/q/b", "/q/a/b")] == [one, two, three]


@pytest.mark.parametrize("pattern", ["q", "/q", "/q/**/x", "/__sys__/x", "/q/{username}"])
def test_what_no_request_can_go_to_is_named(pattern: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"of tests\.realtime\.requests\.test_responders\.one: "):
        Responders().add(pattern, one)


def test_one_function_a_pattern_and_not_too_many() -> None:
    responders = Responders()
    responders.add("/q/0", one)
    responders.add("/q/0", one)
    with pytest.raises(ImproperlyConfigured, match=r"test_responders\.one answers that already"):
        responders.add("/q/0", two)
    for number in range(1, RESPONDER_PATTERNS_MAX):
        responders.add(f"/q/{number}", one)
    with pytest.raises(ImproperlyConfigured, match=f"at most {RESPONDER_PATTERNS_MAX}"):
        responders.add("/q/more", one)
