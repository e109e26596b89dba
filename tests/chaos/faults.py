"""All faults, in the order in which they are run and shown."""

from __future__ import annotations

from . import (
    faults_away,
    faults_network,
    faults_node,
    faults_outbox,
    faults_parted,
    faults_redis,
    faults_rolling,
    faults_starved,
)
from .table import Fault

FAULTS: tuple[Fault, ...] = (
    *faults_node.FAULTS,
    *faults_starved.FAULTS,
    *faults_network.FAULTS,
    *faults_away.FAULTS,
    *faults_redis.FAULTS,
    *faults_parted.FAULTS,
    *faults_rolling.FAULTS,
    *faults_outbox.FAULTS,
)

BY_NAME = {fault.name: fault for fault in FAULTS}
