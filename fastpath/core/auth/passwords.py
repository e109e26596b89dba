"""What is known of users' passwords without keeping any: those that were right of late, and who may try how often."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

KNOWN_MAX = 10_000
"""Passwords that are known to have been right."""

KNOWN_MS = 60_000
"""Milliseconds for which a right password is known: a crowd of things that comes back at once is asked about once."""

KEYS_MAX = 20_000
"""Users and addresses whose tries are counted; beyond it those that tried longest ago are forgotten."""

Key = tuple[str, ...]


class RightPasswords:
    """The tokens of users whose password was right a moment ago, by a digest that nobody without the secret can try
    passwords against; ``secret`` is this process' own, at most 64 bytes."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._known: OrderedDict[bytes, tuple[str, int]] = OrderedDict()  # the token, and until when (ms)

    def __len__(self) -> int:
        return len(self._known)

    def digest(self, user: str, password: str) -> bytes:
        """Return the digest by which the pair of user and password is known."""
        name = user.encode(errors="surrogatepass")
        data = len(name).to_bytes(4) + name + password.encode(errors="surrogatepass")
        return blake2b(data, digest_size=32, key=self._secret).digest()

    def token(self, digest: bytes, now: int) -> str:
        """Return the user's token if the pair is known to be right, else an empty text."""
        token, until = self._known.get(digest, ("", 0))
        return token if until > now else ""

    def keep(self, digest: bytes, token: str, now: int) -> None:
        """Keep the pair as a right one, with the token of its user."""
        self._known.pop(digest, None)
        self._known[digest] = (token, now + KNOWN_MS)
        while len(self._known) > KNOWN_MAX or next(iter(self._known.values()))[1] <= now:
            self._known.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        """Forget that the pair was right."""
        self._known.pop(digest, None)


class Tries:
    """Limits on how often each key may try: ``burst`` times at once, then once in ``each_ms``; a right try is given
    back."""

    def __init__(self, burst: int, each_ms: int) -> None:
        self._each_ms = each_ms
        self._room_ms = (burst - 1) * each_ms
        self._full_until: OrderedDict[Key, int] = OrderedDict()  # when all of a key's tries are there again (ms)

    def __len__(self) -> int:
        return len(self._full_until)

    def may(self, key: Key, now: int) -> bool:
        """Return whether the key has a try left."""
        return self._full_until.get(key, 0) - now <= self._room_ms

    def take(self, key: Key, now: int) -> None:
        """Count one try of the key."""
        self._full_until[key] = max(self._full_until.pop(key, 0), now) + self._each_ms
        while len(self._full_until) > KEYS_MAX or next(iter(self._full_until.values())) <= now:
            self._full_until.popitem(last=False)

    def give_back(self, key: Key) -> None:
        """Give a try back to the key, as it was no guess."""
        if key in self._full_until:
            self._full_until[key] -= self._each_ms
