"""Whose turn it is to answer a request."""

from __future__ import annotations

from fastpath.core.protocol.limits import RESPONDER_PATTERNS_MAX
from fastpath.core.requests.responders import Responders, offers_of


def test_each_request_goes_to_who_was_asked_longest_ago_of_those_that_cover_it() -> None:
    responders: Responders[str] = Responders()
    responders.set("a", ["/q/*"])
    responders.set("b", ["/q/**", "/q/*"])
    responders.set("c", ["/other/x"])
    assert sorted(responders.choose("/q/x", ()) or "" for _ in range(2)) == ["a", "b"]
    order = [responders.choose("/q/x", ()) for _ in range(6)]
    assert order[0] != order[1]
    assert order == order[:2] * 3, "in turns"
    assert [responders.choose("/q/x/y", ()) for _ in range(3)] == ["b"] * 3
    assert responders.choose("/q/x", ()) == "a", "b was asked by the other pattern meanwhile"
    assert responders.choose("/nobody/x", ()) is None
    assert responders.choose("/other/x", ()) == "c"


def test_one_that_passed_is_not_asked_again_and_a_newcomer_is_asked_first() -> None:
    responders: Responders[str] = Responders()
    for name in "abc":
        responders.set(name, ["/q/x"])
    passed: list[str] = []
    for _ in "abc":
        chosen = responders.choose("/q/x", passed)
        assert chosen is not None
        passed.append(chosen)
    assert sorted(passed) == ["a", "b", "c"]
    assert responders.choose("/q/x", ("a", "b", "c")) is None
    responders.set("new", ["/q/*"])
    assert responders.choose("/q/x", ()) == "new"


def test_patterns_are_replaced_and_nothing_is_left_of_one_that_leaves() -> None:
    responders: Responders[str] = Responders()
    responders.set("a", ["/q/x", "/q/x", "/r/**"])
    responders.set("a", ["/s/x"])
    assert responders.choose("/q/x", ()) is None
    assert responders.choose("/s/x", ()) == "a"
    assert ("a" in responders, len(responders), responders.those()) == (True, 1, ["a"])
    responders.set("a", [])
    responders.set("a", [])
    assert ("a" in responders, len(responders)) == (False, 0)
    assert responders.choose("/s/x", ()) is None


def test_wildcards_in_the_first_place_do_not_stand_for_the_servers_own() -> None:
    responders: Responders[str] = Responders()
    responders.set("a", ["/**"])
    assert responders.choose("/__sys__/x", ()) is None
    assert responders.choose("/a/b", ()) == "a"


def test_what_becomes_of_patterns() -> None:
    offers = offers_of(["/a/*", "/a/*", "bad", "/a/**/b", "/__sys__/x", "/a/{username}", "/**"])
    assert [offer.error for offer in offers] == ["", "", "invalid", "invalid", "denied", "invalid", ""]
    many = offers_of([f"/a/{number}" for number in range(RESPONDER_PATTERNS_MAX + 1)])
    assert [offer.error for offer in many] == [""] * RESPONDER_PATTERNS_MAX + ["limit"]
