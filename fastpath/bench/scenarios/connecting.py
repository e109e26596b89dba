"""F9: the server's CPU time for a connection with one subscription, anonymous and with tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jwt

from fastpath.core.auth import tokens
from fastpath.core.auth.keys import Keys

from ..load.dialects import Dialect, Fastpath, Floor
from ..load.swarm import Swarm
from ..machine.procfs import cpu_ns
from ..servers import fastpath_server
from ..servers.fastpath_server import MeasuredServer
from .measure import RunOptions, pinned, sockets_for
from .result import Result
from .scenarios import Scenario

WARM_CONNECTIONS = 500
VERIFICATIONS = 2000


def measure(scenario: Scenario, options: RunOptions) -> Result:
    """Measure ``connect_cpu_us`` without a token, ``connect_hs256_cpu_us`` with one of its own for each connection, and
    what verifying a token costs alone: by the server's own function, and by PyJWT for algorithms that this function
    does not take."""
    with fastpath_server.sidecar(
        options.server_core, mode="none", workers=options.workers, settings=options.settings
    ) as server:
        plain_us, plain_per_s = _connect(scenario, server, Fastpath(options.form), options)
    with fastpath_server.sidecar(options.server_core, workers=options.workers, settings=options.settings) as server:
        token_us, token_per_s = _connect(scenario, server, Fastpath(options.form, server.token), options)
        shown = server.settings | options.shown
    result: Result = {
        "scenario": scenario.name,
        "title": scenario.title,
        "connections": scenario.connections,
        "connect_cpu_us": plain_us,
        "connect_hs256_cpu_us": token_us,
        "connects_per_s": plain_per_s,
        "connects_hs256_per_s": token_per_s,
        "lost": 0,
        "doubled": 0,
        "reordered": 0,
        "form": options.form,
        "settings": shown,
        "command": options.command,
    }
    if options.floor:
        with fastpath_server.floor(options.floor, False, options.server_core) as server:
            result["floor_connect_cpu_us"], _ = _connect(scenario, server, Floor(), options)
    with pinned(options.server_core):
        return result | {"verification_us": verifications()}


def _connect(scenario: Scenario, server: MeasuredServer, dialect: Dialect, options: RunOptions) -> tuple[float, float]:
    """Return the CPU time of the server for each connection in us, and connections a second."""
    with pinned(options.load_core):
        plan = scenario.plan()
        warm = Swarm(dialect, sockets_for(server, options.tls), plan[:WARM_CONNECTIONS], first=len(plan))
        swarm = Swarm(dialect, sockets_for(server, options.tls), plan)
        try:
            warm.connect()
            swarm.prepare()
            cpu, begin = cpu_ns(server.pids), time.monotonic()
            swarm.connect()
            cpu, took = cpu_ns(server.pids) - cpu, time.monotonic() - begin
        finally:
            warm.close()
            swarm.close()
    return round(cpu / 1000 / len(plan), 1), round(len(plan) / took, 1)


def verifications() -> dict[str, float]:
    """Return microseconds for one token, by who verifies it and its algorithm; those that cannot run here are left
    out."""
    secret = "a secret of the benchmark, long enough"  # noqa: S105 - it signs nothing but this
    usual = fastpath_server.mint(secret, "user1", [fastpath_server.SUBSCRIBERS])
    now, keys = int(time.time() * 1000), Keys(secret)
    found = {
        "HS256 by this server": _microseconds(lambda: tokens.verify(usual, keys, now)),
        "HS256 by PyJWT": _microseconds(lambda: jwt.decode(usual, secret, ["HS256"], audience="fastpath")),
    }
    for algorithm, (private, public) in _keys().items():
        token = fastpath_server.mint(private, "user1", [fastpath_server.SUBSCRIBERS], algorithm)

        def verify(token: str = token, public: Any = public, algorithm: str = algorithm) -> object:
            return jwt.decode(token, public, [algorithm], audience="fastpath")

        found[f"{algorithm} by PyJWT"] = _microseconds(verify)
    return found


def _microseconds(work: Callable[[], object]) -> float:
    work()
    best = float("inf")
    for _ in range(5):
        begin = time.process_time_ns()
        for _ in range(VERIFICATIONS // 5):
            work()
        best = min(best, (time.process_time_ns() - begin) / (VERIFICATIONS // 5) / 1000)
    return round(best, 1)


def _keys() -> dict[str, tuple[Any, Any]]:
    """Return key pairs for PyJWT's other algorithms, which need the package cryptography."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519, rsa  # noqa: PLC0415 - only if it is there
    except ImportError:
        return {}
    large, small = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
    return {"RS256": (large, large.public_key()), "EdDSA": (small, small.public_key())}
