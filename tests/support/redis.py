"""Real Redis servers and Sentinels on loopback, alone or as a topology, as context managers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Self

import redis

from tests.support.certificates import Certificate
from tests.support.redis_servers import ENDED, NAME, RedisServer, SentinelServer, Server, free_port
from tests.support.waiting import until

__all__ = ["ENDED", "NAME", "RedisServer", "SentinelServer", "Server", "Topology", "free_port"]


class Topology:
    """A primary, its replicas and their Sentinels: ``with Topology() as topology:``.

    ``down_after`` (ms) is when a Sentinel takes a silent server for down: three seconds at least where it is not the
    subject, or a busy machine makes failovers. ``quick`` makes the Sentinels look ten times as often as they do by
    themselves, so that a failover takes about a second more: for tests of what follows a failover, not of what may be
    acknowledged meanwhile. With a ``password`` everybody has a login of their own, and ``cut`` can part them;
    ``node-1`` to ``node-4`` are for the nodes of the test.
    """

    def __init__(
        self,
        *,
        redis: int = 3,
        sentinels: int = 3,
        down_after: int = 3000,
        quick: bool = False,
        password: str = "",
        certificate: Certificate | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        self.down_after = down_after
        self.quick = quick
        self.password = password
        nodes = [f"node-{n}" for n in range(1, 5)]
        logins = [*(f"redis-{n}" for n in range(redis)), *(f"sentinel-{n}" for n in range(sentinels)), *nodes]
        self.logins = logins if password else []
        own = {"min-replicas-to-write": "1", "min-replicas-max-lag": "10"} if redis > 1 else {}
        self.servers: list[RedisServer] = []
        for n in range(redis):
            self.servers.append(
                RedisServer(
                    password=password,
                    certificate=certificate,
                    replica_of=self.servers[0] if n else None,
                    user=f"redis-{n}" if password else "",
                    users=self.logins,
                    options=own | (options or {}),
                )
            )
        self.sentinels = [SentinelServer(password=password, certificate=certificate) for _ in range(sentinels)]
        for n, sentinel in enumerate(self.sentinels):
            sentinel.conf.write_text("\n".join(self._sentinel_conf(n, sentinel)) + "\n")

    @property
    def url(self) -> str:
        """The address as the setting ``engine`` takes it."""
        return self.url_for("")

    def url_for(self, user: str) -> str:
        """The same with the name of a user, for Redis and Sentinels."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        login = f"{user}:{self.password}@" if self.password else ""
        options = [f"sentinel_user={user}"] if user else []
        options += [f"sentinel_password={self.password}"] if self.password else []
        certificate = self.servers[0].certificate
        options += [f"ca={certificate.cert}"] if certificate else []
        query = "?" + "&".join(options) if options else ""
        return f"redis{'s' if certificate else ''}+sentinel://{login}{hosts}/{NAME}{query}"

    def __enter__(self) -> Self:
        try:
            for server in (*self.servers, *self.sentinels):
                server.launch()
            for server in (*self.servers, *self.sentinels):
                until(server.answers)
            self.wait_settled()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.sentinels, *self.servers):
            server.__exit__()

    @property
    def primary(self) -> RedisServer:
        """The server that a majority of the Sentinels names as the primary; AssertionError when there is none."""
        named: dict[int, int] = {}
        for sentinel in self.sentinels:
            with suppress(*ENDED):
                port = sentinel.primary()[1]
                named[port] = named.get(port, 0) + 1
        for server in self.servers:
            if named.get(server.port, 0) * 2 > len(self.sentinels):
                return server
        raise AssertionError(f"no majority of the Sentinels names a primary: {named}")

    @property
    def replicas(self) -> list[RedisServer]:
        """All others, running or not."""
        primary = self.primary
        return [server for server in self.servers if server is not primary]

    def wait_settled(self, seconds: float = 30) -> None:
        """Wait until every server that runs follows the one primary and every Sentinel knows it."""
        self._look_often(True)
        until(self.settled, seconds)
        self._look_often(self.quick)

    def settled(self) -> bool:
        """Whether one primary has all other running servers as its replicas, and the Sentinels agree."""
        try:
            primary = self.primary
            running = [s for s in self.servers if s.process is not None]
            info = primary.call("INFO", "replication")
            online = [info[key] for key in info if key.startswith("slave") and isinstance(info[key], dict)]
            return (
                primary.role == "master"
                and sum(one["state"] == "online" for one in online) == len(running) - 1
                and all(self._knows(sentinel, primary, len(running)) for sentinel in self.sentinels if sentinel.process)
            )
        except (AssertionError, KeyError, *ENDED):
            return False

    def failover(self) -> None:
        """Ask a Sentinel for a planned failover; returns at once."""
        self.sentinels[0].call("SENTINEL", "FAILOVER", NAME)

    def wait_new_primary(self, old: RedisServer, seconds: float = 30) -> RedisServer:
        """Wait until a majority of the Sentinels names another primary than ``old`` that is one."""

        def promoted() -> RedisServer | None:
            with suppress(AssertionError):
                primary = self.primary
                if primary is not old and primary.role == "master":
                    return primary
            return None

        found = until(promoted, seconds)
        assert found is not None
        return found

    def cut(self, logins: Iterable[str], servers: Iterable[Server]) -> None:
        """``logins`` (``redis-0``, ``sentinel-2``, ``node-1``) no longer get through to ``servers``: no packet is
        dropped, their connections are closed and new ones refused. ``heal`` undoes it.
        """
        assert self.password, "only a topology with a password can be parted"
        for server in servers:
            for login in logins:
                server.call("ACL", "SETUSER", login, "off")
                with suppress(redis.ResponseError):
                    server.call("CLIENT", "KILL", "USER", login)

    def part(self, side: Iterable[Server], *logins: str) -> None:
        """Cut the servers of ``side`` (and further ``logins``, of nodes) and all others off from each other."""
        inside = list(side)
        outside = [s for s in (*self.servers, *self.sentinels) if s not in inside]
        theirs = [*map(self.login, inside), *logins]
        self.cut(theirs, outside)
        nodes = {login for login in self.logins if login.startswith("node-")} - set(logins)
        self.cut([*map(self.login, outside), *nodes], inside)

    def heal(self) -> None:
        """Everybody gets through to everybody again."""
        for server in (*self.servers, *self.sentinels):
            if server.process is not None:
                for login in self.logins:
                    server.call("ACL", "SETUSER", login, "on")
                # A Sentinel keeps a connection on which its login was refused.
                server.call("CLIENT", "KILL", "USER", "default", "SKIPME", "yes")
                with suppress(redis.ResponseError):
                    server.call("CONFIG", "REWRITE")

    def login(self, server: Server) -> str:
        """As whom a server logs in to others."""
        if isinstance(server, RedisServer):
            return f"redis-{self.servers.index(server)}"
        assert isinstance(server, SentinelServer)
        return f"sentinel-{self.sentinels.index(server)}"

    def _knows(self, sentinel: SentinelServer, primary: RedisServer, running: int) -> bool:
        (master,) = sentinel.figures("MASTER", NAME)
        replicas = sentinel.figures("REPLICAS", NAME)
        good = [
            one
            for one in replicas
            if one["master-link-status"] == "ok"
            and int(one["master-port"]) == primary.port
            and "down" not in one["flags"]
        ]
        return (
            int(master["port"]) == primary.port
            and master["flags"] == "master"
            and int(master["num-other-sentinels"]) == len(self.sentinels) - 1
            and len(good) == running - 1
        )

    def _look_often(self, often: bool) -> None:
        """Set how often the Sentinels look; their own periods are those of ``sentinel.c``."""
        own = {"info-period": 10_000, "ping-period": 1000, "ask-period": 1000, "publish-period": 2000}
        # When the primary is down they ask the replicas each second, and want an answer no older than five pings.
        periods = {"info-period": 500, "ping-period": 250, "ask-period": 100, "publish-period": 200} if often else own
        words = [str(word) for pair in periods.items() for word in pair]
        for sentinel in self.sentinels:
            with suppress(*ENDED):  # Redis 6.2 cannot, and one may be away
                sentinel.call("SENTINEL", "DEBUG", *words)

    def _sentinel_conf(self, n: int, sentinel: SentinelServer) -> list[str]:
        lines = [
            *sentinel.listening(),
            "bind 127.0.0.1",
            f"dir {sentinel.folder}",
            f"logfile {sentinel.folder / 'log'}",
            "protected-mode no",
            f"sentinel myid {sentinel.id}",
            f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} {len(self.sentinels) // 2 + 1}",
            f"sentinel down-after-milliseconds {NAME} {self.down_after + (300 if self.quick and n > 1 else 0)}",
            # After twice this time a failover is tried again, should each have voted for itself: Sentinels in step do
            # so, which is why the third of a quick topology waits longer.
            f"sentinel failover-timeout {NAME} {1000 if self.quick else 3000}",
            f"sentinel parallel-syncs {NAME} {max(1, len(self.servers) - 1)}",
        ]
        if self.password:
            lines += [f"user {login} on >{self.password} ~* &* +@all" for login in self.logins]
            lines += [
                f"requirepass {self.password}",
                f"sentinel auth-user {NAME} sentinel-{n}",
                f"sentinel auth-pass {NAME} {self.password}",
                f"sentinel sentinel-user sentinel-{n}",
                f"sentinel sentinel-pass {self.password}",
            ]
        # What they would find out by themselves within some seconds.
        lines += [f"sentinel known-replica {NAME} 127.0.0.1 {server.port}" for server in self.servers[1:]]
        for other in self.sentinels:
            if other is not sentinel:
                lines.append(f"sentinel known-sentinel {NAME} 127.0.0.1 {other.port} {other.id}")
        return lines
