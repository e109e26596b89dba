"""Passwords that are known without being kept, and guesses that are counted."""

from __future__ import annotations

from fastpath.core.auth import passwords
from fastpath.core.auth.passwords import KNOWN_MS, RightPasswords, Tries


def test_a_pair_is_known_for_a_while_by_a_digest_of_this_process() -> None:
    """Where the name ends and the password begins belongs to it."""
    right = RightPasswords(b"secret")
    digest = right.digest("ann", "demo")
    assert digest not in (right.digest("annd", "emo"), right.digest("ann", "Demo"))
    assert digest != RightPasswords(b"other").digest("ann", "demo")
    assert right.digest("ann", "\udcff")  # what is no Unicode has one as well
    assert not right.token(digest, 0)
    right.keep(digest, "token", 1000)
    assert right.token(digest, 1000 + KNOWN_MS - 1) == "token"
    assert not right.token(digest, 1000 + KNOWN_MS)
    right.forget(digest)
    assert not right.token(digest, 1000)


def test_only_so_many_are_known_and_none_for_longer_than_it_counts(monkeypatch) -> None:
    monkeypatch.setattr(passwords, "KNOWN_MAX", 3)
    right = RightPasswords(b"secret")
    for number in range(5):
        right.keep(b"%d" % number, "token", number)
    assert [right.token(b"%d" % number, 5) for number in range(5)] == ["", "", "token", "token", "token"]
    right.keep(b"5", "token", KNOWN_MS * 2)
    assert len(right) == 1


def test_tries_come_back_one_by_one_and_what_was_right_is_none() -> None:
    tries = Tries(3, 1000)
    key, now = ("ann", "10.0.0.1"), 1_000_000
    for _ in range(3):
        assert tries.may(key, now)
        tries.take(key, now)
    assert not tries.may(key, now)
    assert not tries.may(key, now + 999)
    assert tries.may(key, now + 1000)
    assert tries.may(("bob", "10.0.0.1"), now)
    tries.give_back(key)
    assert tries.may(key, now)
    tries.take(key, now)
    assert not tries.may(key, now)


def test_only_so_many_keys_are_counted(monkeypatch) -> None:
    """Those that have all tries again are forgotten first, then who has tried longest ago."""
    monkeypatch.setattr(passwords, "KEYS_MAX", 2)
    tries = Tries(1, 1000)
    for number in range(3):
        tries.take((f"{number}",), 0)
    assert [tries.may((f"{number}",), 0) for number in range(3)] == [True, False, False]
    tries.take(("3",), 5000)
    assert len(tries) == 1
