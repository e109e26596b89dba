"""A sidecar that trusts this project's tokens, with and without rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from entitlement import conf as entitlement_conf
from entitlement.following.compiler import position
from entitlement.models import Rule
from realtime.nodes.control_sockets import control
from tests.support.entitlement.live import RunningAgent
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


@pytest.fixture(scope="module")
def asking_rules() -> Iterator[Sidecar]:
    """Mode ``rules``, one for each module."""
    with Sidecar(mode="rules", token_secret=entitlement_conf.token_secret()) as sidecar:
        yield sidecar


@pytest.fixture
def carrier(asking_rules: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """It, with the rights of the test before, if any; the settings name its control socket and ports."""
    sidecar = asking_rules
    if sidecar.process is None:  # a test has ended it
        sidecar.start()
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control, "LISTEN": sidecar.settings["listen"]}
    with control():
        yield sidecar


@pytest.fixture
def bob(transactional_db: None) -> User:
    """May read /stocks/**, and nothing else."""
    user = User.objects.create_user("bob", password="demo")
    Rule.objects.create(user=user, pattern="/stocks/**")
    return user


@pytest.fixture
def entitled(carrier: Sidecar, bob: User) -> Iterator[Sidecar]:
    """The rights have arrived and are kept up to date."""
    with RunningAgent(carrier.control):
        until(lambda: control().hello().get("generation") == position().generation)
        yield carrier
