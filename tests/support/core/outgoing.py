"""What the messages of one client of MQTT need beside its session."""

from __future__ import annotations


class Silent:
    """A talk that has nothing to say."""

    def say(self, record: bytes) -> bytes:
        """No packets."""
        del record
        return b""

    def missed(self, subject: str) -> None:
        """Nothing was missed."""
        raise AssertionError(subject)


class Open:
    """The connection of a client that may read everything."""

    def later(self, ms: int = 0) -> None:
        """Nothing waits."""

    def may_read(self, subject: str) -> bool:
        """It may."""
        del subject
        return True
