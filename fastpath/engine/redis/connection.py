"""One connection to a Redis server or a Sentinel, made when it is needed and dropped at the first fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from redis.exceptions import RedisError, ResponseError

from ...awake import awake_timeout
from .address import Address, RedisAway, RedisConfig, shown

AWAY = (RedisError, OSError)
"""Errors that a call raises when the server is not there, does not answer in time or refuses the login."""


class PrimaryAccess(Protocol):
    """The way to the primary, to a server, and the names of keys; for who has a connection of its own."""

    async def primary(self) -> Address:
        """Return where the primary is; raises RedisAway when there is none."""

    def link(self, address: Address) -> RedisLink:
        """Return a connection of somebody's own to a server."""

    def key(self, name: str) -> str:
        """Return the name of a key of somebody's own."""


class RedisLink:
    """A link to one server, which is reached by what was ``written`` of it, or by its address.

    One task at a time may use it: answers come in the order of the questions.
    """

    def __init__(
        self, config: RedisConfig, address: Address, *, written: Address | None = None, sentinel: bool = False
    ) -> None:
        self.address = address
        self._connection = config.connection(written or address, sentinel=sentinel)

    @property
    def connected(self) -> bool:
        """True while there is a connection; it may have broken without anybody having noticed."""
        return bool(self._connection.is_connected)

    async def ask(self, *commands: Sequence[Any], seconds: float) -> list[Any]:
        """Send the commands at once and return their answers; one that a command is refused with is a ResponseError in
        its place. Raises one of ``AWAY``, and is not connected then; ``seconds`` count while this process runs."""
        connection = self._connection
        try:
            async with awake_timeout(seconds):
                if not connection.is_connected:
                    await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                return [await self._answer() for _ in commands]
        except TimeoutError:
            await self.close()
            raise RedisAway(f"{shown(self.address)} did not answer within {seconds:g} s") from None
        except BaseException:
            await self.close()
            raise

    async def call(self, *command: Any, seconds: float) -> Any:
        """Send one command and return its answer; raises one of ``AWAY``, to which ResponseError belongs."""
        (answer,) = await self.ask(command, seconds=seconds)
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    async def read(self) -> Any:
        """Return what the server says next by itself, as long as that takes; raises one of ``AWAY``."""
        return await self._answer()

    async def close(self) -> None:
        """Drop the connection; what is asked next makes another."""
        await self._disconnect(nowait=True)

    async def end(self) -> None:
        """End the connection for good, and wait for that a moment."""
        await self._disconnect(nowait=False)

    async def _disconnect(self, *, nowait: bool) -> None:
        try:
            await self._connection.disconnect(nowait=nowait)
        except AWAY:
            pass

    async def _answer(self) -> Any:
        try:
            return await self._connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error


def texts(answer: Any) -> dict[str, str]:
    """Return the names and values of an answer that lists both in turn."""
    words = [word.decode(errors="replace") for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))


def sections(info: bytes) -> dict[str, str]:
    """Return the lines of INFO by their names."""
    lines = (line.partition(":") for line in info.decode(errors="replace").split("\r\n"))
    return {name: value for name, separator, value in lines if separator}


def replicas_in(info: dict[str, str]) -> dict[Address, int]:
    """Return the replicas that a primary names in its INFO as connected, and up to which offset each has
    acknowledged."""
    found = {}
    for name, value in info.items():
        if name.startswith("slave") and name[5:].isdecimal():
            one = dict(pair.partition("=")[::2] for pair in value.split(","))
            if one.get("state") == "online":
                found[one["ip"], int(one["port"])] = int(one["offset"])
    return found
