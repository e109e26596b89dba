"""All keys of a Redis as JSON, and back: by their types, so that it does not matter of which version the server is."""

from __future__ import annotations

from typing import Any

import redis

from tests.support.redis import RedisServer


def _client(server: RedisServer) -> redis.Redis:
    return redis.Redis(port=server.port, password=server.password or None, decode_responses=False)


def _text(value: bytes | int) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _bytes(value: str) -> bytes:
    return value.encode("latin-1")


def dump(server: RedisServer) -> dict[str, Any]:
    """Type and value of each key; a character stands for a byte. When a key expires is left out."""
    found: dict[str, Any] = {}
    with _client(server) as client:
        for key in client.scan_iter(count=1000):
            match kind := client.type(key).decode():
                case "string":
                    value: Any = _text(client.get(key))
                case "hash":
                    value = {_text(name): _text(one) for name, one in client.hgetall(key).items()}
                case "list":
                    value = [_text(one) for one in client.lrange(key, 0, -1)]
                case "set":
                    value = sorted(_text(one) for one in client.smembers(key))
                case "zset":
                    value = [[_text(name), score] for name, score in client.zrange(key, 0, -1, withscores=True)]
                case "stream":
                    value = [
                        [_text(at), [[_text(name), _text(one)] for name, one in entry.items()]]  # in their order
                        for at, entry in client.xrange(key)
                    ]
                case _:
                    raise AssertionError(f"{key!r}: {kind}")
            found[_text(key)] = [kind, value]
    return found


def restore(server: RedisServer, data: dict[str, Any]) -> None:
    """Write all of it into a server that is empty."""
    with _client(server) as client:
        for text, (kind, value) in data.items():
            key = _bytes(text)
            match kind:
                case "string":
                    client.set(key, _bytes(value))
                case "hash":
                    client.hset(key, mapping={_bytes(name): _bytes(one) for name, one in value.items()})
                case "list":
                    client.rpush(key, *map(_bytes, value))
                case "set":
                    client.sadd(key, *map(_bytes, value))
                case "zset":
                    client.zadd(key, {_bytes(name): score for name, score in value})
                case "stream":
                    for at, entry in value:
                        client.xadd(key, {_bytes(name): _bytes(one) for name, one in entry}, id=at)
                case _:
                    raise AssertionError(f"{text!r}: {kind}")
