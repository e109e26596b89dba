"""What a fault is: how it is injected, on which stage, and what must hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .model import EXACT, Verdict
from .stage import Stage
from .stage_outbox import OutboxStage
from .stage_redis import RedisStage

Inject = Callable[[Stage], Awaitable[None]]
Judge = Callable[[Stage, Verdict], list[str]]
"""What else is wrong with a run, beyond what the checker found."""


@dataclass(frozen=True)
class Fault:
    """``inject`` brings the fault about and heals it; a run then waits until all is well again."""

    name: str
    what: str
    """For the table in docs/operate/reliability.md."""
    holds: str
    """The promise, for the same table."""
    inject: Inject
    stage: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[..., Stage] = Stage
    cap: int | None = 0
    """Resynchronisations an injection may cause where the cache reaches, over all clients and subjects; None: any."""
    pause_ms: int | None = None
    """The bound of the pause of acknowledgements, as the 95th of 100; None: none is promised."""
    well_seconds: float = 20
    """Until every publisher and every client must be at work again."""
    sessions: str = EXACT
    """What it leaves of sessions of MQTT."""
    forgets: bool = False
    """It destroys what was stored; everybody must be told."""
    judge: Judge | None = None
    obstacle: Callable[[], str] = str
    """Why it cannot be injected on this machine; empty when it can."""
    short: bool = True
    """Whether it is part of the short form."""

    @property
    def redis(self) -> bool:
        """Whether it needs Redis servers."""
        return isinstance(self.make, type) and issubclass(self.make, RedisStage)

    @property
    def postgres(self) -> bool:
        """Whether it needs PostgreSQL."""
        return isinstance(self.make, type) and issubclass(self.make, OutboxStage)

    @property
    def steady(self) -> bool:
        """Whether it promises that some or all subscribers stay connected."""
        return bool(self.stage.get("steady"))

    def limit_seconds(self, injections: int) -> float:
        """A run that takes longer has failed."""
        return 90 + injections * (self.well_seconds + 25)
