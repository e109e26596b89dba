"""How many connections each user and address has over all workers, and which is one too many.

docs/operate/limits.md explains it.
"""

from __future__ import annotations

PER_USER = "connections_per_user"
PER_ADDRESS = "connections_per_address"

Seat = tuple[int, int]
"""The worker and the connection's number in it."""


class ConnectionQuotas:
    """The connections that were given a place; 0 is no bound. Who is not signed in has no user and no bound by user."""

    def __init__(self, per_user_max: int, per_address_max: int) -> None:
        self._per_user_max = per_user_max
        self._per_address_max = per_address_max
        self._taken: dict[Seat, tuple[str, str]] = {}
        self._users: dict[str, int] = {}
        self._addresses: dict[str, int] = {}

    def take(self, seat: Seat, user: str, address: str) -> str:
        """Give a connection its place, or, when it has one, another user's; return the limit that it would pass, if it
        gets none."""
        self.leave(seat)
        if self._per_address_max and address and self._addresses.get(address, 0) >= self._per_address_max:
            return PER_ADDRESS
        if self._per_user_max and user and self._users.get(user, 0) >= self._per_user_max:
            return PER_USER
        self._taken[seat] = user, address
        self._users[user] = self._users.get(user, 0) + 1
        self._addresses[address] = self._addresses.get(address, 0) + 1
        return ""

    def leave(self, seat: Seat) -> None:
        """Give back the seat of a connection that is gone."""
        taken = self._taken.pop(seat, None)
        if taken is not None:
            for counts, name in ((self._users, taken[0]), (self._addresses, taken[1])):
                counts[name] -= 1
                if not counts[name]:
                    del counts[name]

    def forget(self, worker: int) -> None:
        """Give back the seats of a worker whose connections are all gone."""
        for seat in [seat for seat in self._taken if seat[0] == worker]:
            self.leave(seat)

    def __len__(self) -> int:
        return len(self._taken)
