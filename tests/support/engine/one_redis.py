"""The way to one Redis server, for who would otherwise ask the engine where the primary is."""

from __future__ import annotations

from fastpath.engine.redis.address import Address, RedisConfig
from fastpath.engine.redis.connection import RedisLink
from tests.support.redis import RedisServer


class Servers:
    """One server, under the names of this test."""

    def __init__(self, server: RedisServer, url: str = "") -> None:
        self._config = RedisConfig.parse(url or server.url)
        self._address = server.address

    async def primary(self) -> Address:
        return self._address

    def link(self, address: Address) -> RedisLink:
        return RedisLink(self._config, address)

    def key(self, name: str) -> str:
        return f"test:{name}"
