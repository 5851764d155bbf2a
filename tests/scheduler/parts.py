"""Schedulers for tests, with whatever options a test is about."""

from __future__ import annotations

from random import Random
from typing import Any

from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.clock import Clock
from strato.scheduler import Scheduler
from strato.scheduler.options import SchedulerOptions


def scheduler(cluster: Cluster, informers: Informers, clock: Clock, **given: Any) -> Scheduler:
    """Return a scheduler; ``given`` are arguments of `Scheduler` and fields of `SchedulerOptions`."""
    arguments = {name: given.pop(name) for name in ("config", "metrics", "load_flow") if name in given}
    return Scheduler(cluster, informers, clock, Random(1), options=SchedulerOptions(**given), **arguments)
