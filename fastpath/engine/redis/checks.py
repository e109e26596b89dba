"""A first look at a primary: that it is one, and that it is set up so that nothing gets lost.

What must not be is refused, what should not be is logged.
"""

from __future__ import annotations

import logging

from redis.exceptions import ResponseError

from .address import RedisAway, shown
from .connection import RedisLink, sections, texts
from .primary import Primary, SentinelView
from .script import SCRIPT

VERSION_MIN = (6, 2)
SENTINELS_MIN = 3
DOWN_AFTER_SECONDS_MIN = 2.0
"""A Sentinel pings once a second: with less patience it takes a primary that was just promoted for down."""

_SECONDS = 1.0

log = logging.getLogger("fastpath.redis")


class RedisRefused(ValueError):
    """The error of a Redis that must not be used; its text says why and what to do."""


async def connect(primary: Primary) -> RedisLink:
    """Connect to the primary, which then knows the script; raise one of ``AWAY``."""
    address = await primary.primary()
    link = primary.link(address)
    try:
        answers = await link.ask(("ROLE",), ("SCRIPT", "LOAD", SCRIPT), seconds=_SECONDS)
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise answer
        if answers[0][0] != b"master":
            raise RedisAway(f"{shown(address)} is no primary")
    except BaseException:
        await link.close()
        raise
    return link


async def check(link: RedisLink, primary: Primary, *, guaranteed: bool) -> None:
    """Look at the primary and its Sentinels; raises RedisRefused, or one of ``AWAY`` when it cannot be looked at."""
    where = shown(link.address)
    server, *settings = await link.ask(
        ("INFO", "server"),
        ("CONFIG", "GET", "maxmemory-policy"),
        ("CONFIG", "GET", "appendonly"),
        seconds=_SECONDS,
    )
    if isinstance(server, ResponseError):
        raise server
    found: dict[str, str] = {}
    for answer in settings:
        if not isinstance(answer, ResponseError):  # a hosted Redis may hide its configuration
            found |= texts(answer)
    views = await primary.ask() if primary.sentinels else []
    replicas = len(await primary.replicas())
    faults = server_faults(where, sections(server).get("redis_version", "0"), found, guaranteed, primary.sentinels > 0)
    if faults:
        raise RedisRefused("; ".join(faults))
    for warning in warnings(where, found, guaranteed, replicas, views, primary.sentinels):
        log.warning("%s", warning)


def server_faults(where: str, version: str, found: dict[str, str], guaranteed: bool, by_sentinel: bool) -> list[str]:
    """Return the faults for which the server must not be used."""
    faults = []
    if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
        faults.append(f"Redis {version} at {where} is too old: 6.2 is the least")
    policy = found.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        faults.append(
            f"Redis at {where} throws data away when memory is short ({policy}): set maxmemory-policy noeviction"
        )
    if guaranteed and by_sentinel and found.get("appendonly", "yes") != "yes":
        faults.append(
            f"Redis at {where} comes back empty after a crash, and would empty its replicas: set appendonly yes, "
            "or run with FASTPATH_DELIVERY=standard"
        )
    return faults


def warnings(
    where: str, found: dict[str, str], guaranteed: bool, replicas: int, views: list[SentinelView], sentinels: int
) -> list[str]:
    """Return what about the server should be otherwise."""
    lines = []
    if len(found) < 2:
        lines.append(
            f"Redis at {where} does not tell its configuration: maxmemory-policy noeviction and appendonly yes?"
        )
    if not guaranteed:
        return lines
    if found.get("appendonly", "yes") != "yes" and not sentinels:
        lines.append(f"Redis at {where} comes back empty after a crash: set appendonly yes")
    if not sentinels:
        if not replicas:
            lines.append(f"Redis at {where} has no replica: what it has acknowledged is on one server")
        lines.append(f"Redis at {where} is used without Sentinels: nobody promotes a replica when it fails")
        return lines
    if replicas < 2:
        lines.append(f"Redis at {where} has {replicas} replicas: with 2, one of the three servers may fail")
    if sentinels < SENTINELS_MIN:
        lines.append(f"{sentinels} Sentinels are named: with 3, one may fail")
    for view in views:
        if view.others + 1 != sentinels:
            lines.append(f"the Sentinels are {view.others + 1}, and {sentinels} are named: name all of them")
        if view.quorum <= sentinels // 2:
            lines.append(f"the Sentinels' quorum is {view.quorum} of {sentinels}: it should be a majority")
        if view.down_after < DOWN_AFTER_SECONDS_MIN:
            lines.append(
                f"the Sentinels' down-after-milliseconds is {view.down_after * 1000:.0f}: below "
                f"{DOWN_AFTER_SECONDS_MIN * 1000:.0f} they fail over twice; 3000 is good"
            )
    return list(dict.fromkeys(lines))
